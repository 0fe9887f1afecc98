//go:build unix

package files

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weftmesh/weft/workspace/redact"
)

// settle makes the files old enough to be cached.
func settle(b *testing.B, dir string) {
	old := time.Now().Add(-time.Hour)
	must(b, filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil {
			err = os.Chtimes(p, old, old)
		}
		return err
	}))
	// ctime can't be set; wait it out by the clock that Read uses.
	for deadline := time.Now().Add(2 * racy); time.Now().Before(deadline); {
	}
}

func benchTree(b *testing.B, files map[string]string) *Tree {
	tree, dir := granted(b, files)
	settle(b, dir)
	return tree
}

func BenchmarkRead4K(b *testing.B) {
	for _, redacting := range []bool{false, true} {
		b.Run(fmt.Sprintf("redact=%v", redacting), func(b *testing.B) {
			tree := benchTree(b, map[string]string{"src/pkg/a.go": strings.Repeat("func main() { println(42) }    //\n", 4096/34)})
			if redacting {
				tree.SetRedactor(redact.New([]redact.Secret{{Value: []byte(secretValue)}}))
			}
			q := ReadRequest{Path: pathOf(b, "app/src/pkg/a.go")}
			b.SetBytes(4096)
			b.ReportAllocs()
			before := cpuTime()
			for b.Loop() {
				if _, err := tree.Read(context.Background(), q); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

func BenchmarkRead1MRanges(b *testing.B) {
	tree := benchTree(b, map[string]string{"a.bin": strings.Repeat("0123456789abcdef", 65536)})
	p := pathOf(b, "app/a.bin")
	b.SetBytes(1 << 20)
	for b.Loop() {
		for off := int64(0); off < 1<<20; off += maxRange {
			if _, err := tree.Read(context.Background(), ReadRequest{Path: p, Offset: off, Length: maxRange, Encoding: "base64"}); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkOpenReadClose4K(b *testing.B) { // the floor: os.Root
	dir := b.TempDir()
	put(b, dir, map[string]string{"src/pkg/a.go": strings.Repeat("x", 4096)})
	root, err := os.OpenRoot(dir)
	must(b, err)
	defer root.Close()
	buf := make([]byte, 4096)
	before := cpuTime()
	defer func() { b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op") }()
	for b.Loop() {
		f, err := root.Open("src/pkg/a.go")
		must(b, err)
		_, err = f.Stat()
		must(b, err)
		_, err = f.Read(buf)
		must(b, err)
		f.Close()
	}
}

// cpuTime is what the process used in nanoseconds: wall time says little on a
// shared machine.
func cpuTime() int64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// goSource is the Go distribution's own source, as a big tree.
func goSource(b *testing.B) *Tree {
	dir := filepath.Join(runtimeRoot(), "src")
	if _, err := os.Stat(dir); err != nil {
		b.Skip("no Go source here")
	}
	return open(b, RootSpec{Name: "go", Dir: dir, Rights: all})
}

func runtimeRoot() string {
	if r := os.Getenv("GOROOT"); r != "" {
		return r
	}
	return "/usr/local/go"
}

func BenchmarkScan(b *testing.B) {
	tree := goSource(b)
	for b.Loop() {
		must(b, tree.Rescan(context.Background()))
	}
}

func BenchmarkGrepGoSource(b *testing.B) {
	tree := goSource(b)
	for b.Loop() {
		r, err := tree.Grep(context.Background(), GrepRequest{Pattern: `func \(.*\) ReadFrom\(`, Path: pathOf(b, "go"), Glob: "**/*.go"})
		must(b, err)
		if r.Hits == 0 {
			b.Fatal("nothing found")
		}
	}
}

func BenchmarkGlobGoSource(b *testing.B) {
	tree := goSource(b)
	for b.Loop() {
		_, err := tree.Glob(context.Background(), GlobRequest{Pattern: "**/*_test.go", Path: pathOf(b, "go"), Limit: 1000})
		must(b, err)
	}
}

func BenchmarkEdit200K(b *testing.B) {
	tree, _ := granted(b, map[string]string{"a.txt": numbered(1, 18_000) + "flip 0\n"})
	i := 0
	for b.Loop() {
		q := EditRequest{Path: pathOf(b, "app/a.txt"), Edits: []TextEdit{{Old: fmt.Sprintf("flip %d\n", i), New: fmt.Sprintf("flip %d\n", i+1)}}}
		_, err := tree.Edit(context.Background(), q)
		must(b, err)
		i++
	}
}
