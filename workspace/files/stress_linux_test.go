package files

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDiskFull: a write that doesn't fit leaves the old file and no rubbish.
func TestDiskFull(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounts need root")
	}
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("mount: %v", err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	put(t, dir, map[string]string{"a.txt": "start"})
	tree := open(t, RootSpec{Name: "app", Dir: dir, Rights: all})
	t.Cleanup(func() { tree.Close() }) // before the unmount
	big := []byte(strings.Repeat("x", 200<<10))
	_, err := tree.Write(context.Background(), WriteRequest{Path: pathOf(t, "app/a.txt"), Mode: "overwrite", Content: big, IfSHA256: sumOf([]byte("start"))})
	if verdict(err) != "no_space" {
		t.Errorf("overwrite: %v", err)
	}
	if _, err := tree.Write(context.Background(), WriteRequest{Path: pathOf(t, "app/b.txt"), Mode: "create", Content: big}); verdict(err) != "no_space" {
		t.Errorf("create: %v", err)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "a.txt")); string(b) != "start" {
		t.Errorf("the file has %d bytes", len(b))
	}
	es, err := os.ReadDir(dir)
	if err != nil || len(es) != 1 {
		t.Errorf("left: %v %v", es, err)
	}
	// With room it works here too: tmpfs has its own idea of inodes.
	if _, err := tree.Edit(context.Background(), EditRequest{Path: pathOf(t, "app/a.txt"), Edits: []TextEdit{{Old: "start", New: "end"}}}); err != nil {
		t.Errorf("edit: %v", err)
	}
}

// TestParallel uses one tree from many goroutines, rescans, changes the
// redactor, and closes it under way: nothing but typed errors, and no lost
// descriptor.
func TestParallel(t *testing.T) {
	before := openFDs(t)
	dir := t.TempDir()
	put(t, dir, project)
	tree, err := OpenTree([]RootSpec{{Name: "app", Dir: dir, Rights: all}}, DefaultRules())
	must(t, err)
	h := use(t, tree)
	var wg sync.WaitGroup
	half := make(chan struct{})
	for i := range 8 {
		wg.Go(func() {
			for n := range 60 {
				if i == 0 && n == 30 {
					close(half)
				}
				for verb, err := range h.each([]string{"app/README.md", "app/src", "app/.env", "app/link", fmt.Sprintf("app/n/%d", i)}[n%5]) {
					if strings.HasPrefix(verdict(err), "untyped") {
						t.Errorf("%s: %v", verb, err)
					}
				}
				if n%10 == 0 {
					_ = tree.Rescan(h.ctx)
					tree.SetRedactor(fakeRedactor{"needle"})
				}
			}
		})
	}
	<-half
	must(t, tree.Close())
	must(t, tree.Close())
	wg.Wait()
	if after := openFDs(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func openFDs(t *testing.T) int {
	t.Helper()
	es, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(es)
}

// TestCloseEndsASearch: Close doesn't wait for a long search, it ends it.
func TestCloseEndsASearch(t *testing.T) {
	tree, _ := granted(t, map[string]string{"a.txt": strings.Repeat("a", 9<<20)})
	started, done := make(chan struct{}), make(chan error, 1)
	tree.SetRedactor(signalRedactor{started})
	go func() {
		_, err := tree.Grep(context.Background(), GrepRequest{Pattern: `(?:a?){1000}b`, Path: pathOf(t, "app")})
		done <- err
	}()
	select {
	case <-started:
	case err := <-done:
		t.Fatalf("the search ended early: %v", err)
	}
	must(t, tree.Close())
	if v := verdict(<-done); v != "cancelled" {
		t.Errorf("the search ended with %s", v)
	}
}

// signalRedactor tells that a search has begun.
type signalRedactor struct{ c chan struct{} }

func (s signalRedactor) Redact(p []byte) ([]byte, int) { close(s.c); return p, 0 }
