//go:build linux

package bench

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Sizes of the files that are read.
const (
	small  = 4 << 10
	middle = 64 << 10
	large  = 1 << 20
	// rangeSize is the most that one read_file gives by bytes.
	rangeSize = 256 << 10
)

var readNames = map[int]string{small: "f4k.txt", middle: "f64k.txt", large: "f1m.txt"}

// text is what every file begins with: lines of 64 bytes, none like another.
var text = func() []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < large; i++ {
		fmt.Fprintf(&b, "%07d %x\n", i, sha256.Sum224([]byte{byte(i), byte(i >> 8), byte(i >> 16)}))
	}
	return b.Bytes()[:large]
}()

// sums are what must arrive.
var sums = map[int][32]byte{small: sha256.Sum256(text[:small]), middle: sha256.Sum256(text[:middle]), large: sha256.Sum256(text)}

// Files of the trace.
const (
	sourceFiles = 24
	editFiles   = 4
)

// plant makes the folder "work" below dir. Contenders that write get one each.
func plant(tb testing.TB, dir string, more map[string]string) string {
	tb.Helper()
	files := map[string]string{}
	for size, name := range readNames {
		files[name] = string(text[:size])
	}
	for i := range sourceFiles {
		var b strings.Builder
		fmt.Fprintf(&b, "package src\n\n// Handle%02d does one thing.\nfunc Handle%02d(n int) int { return n + %d }\n", i, i, i)
		for j := 0; b.Len() < small; j++ {
			fmt.Fprintf(&b, "\n// helper%02d_%02d is one of many.\nfunc helper%02d_%02d(s string) string { return s }\n", i, j, i, j)
		}
		files[sourceName(i)] = b.String()
	}
	for i := range editFiles {
		files[editName(i)] = fmt.Sprintf("package edit\n\n%s\n%s", step(0), strings.Repeat("// filler of a file that is edited\n", 50))
	}
	for name, body := range more {
		files[name] = body
	}
	for name, body := range files {
		full := filepath.Join(dir, "work", filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.WriteFile(full, []byte(body), 0o644)); err != nil {
			tb.Fatal(err)
		}
	}
	return filepath.Join(dir, "work")
}

func sourceName(i int) string { return fmt.Sprintf("src/f%02d.go", i) }
func editName(i int) string   { return fmt.Sprintf("edit/e%d.go", i) }
func step(n int) string       { return fmt.Sprintf("const step%d = 1", n%2) }

// object is a tool's arguments.
type object map[string]any

func (o object) json() []byte {
	raw, err := json.Marshal(o)
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	return raw
}

// answer is what a tool gave: weft puts a line about the content in front of
// it, others don't.
type answer struct{ head, body []byte }

// caller calls a tool of a workspace. An answer that is no success is an
// error.
type caller interface {
	call(ctx context.Context, tool string, args []byte) (answer, error)
}

// reads returns the operation that reads a file whole and compares it.
func reads(c caller, size int) func(context.Context) error {
	path := "work/" + readNames[size]
	switch size {
	case large:
		return func(ctx context.Context) error { return readLarge(ctx, c, path) }
	}
	args := object{"path": path, "max_bytes": 96 << 10}.json()
	return func(ctx context.Context) error {
		got, err := c.call(ctx, "read_file", args)
		if err != nil {
			return err
		}
		return same(got.body, size)
	}
}

// readLarge asks for all ranges at once.
func readLarge(ctx context.Context, c caller, path string) error {
	var parts [large / rangeSize][]byte
	var errs [len(parts)]error
	var wg sync.WaitGroup
	for i := range parts {
		wg.Go(func() {
			got, err := c.call(ctx, "read_file", object{"path": path, "offset": i * rangeSize, "length": rangeSize}.json())
			parts[i], errs[i] = got.body, err
		})
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	return same(bytes.Join(parts[:], nil), large)
}

func same(got []byte, size int) error {
	if sum := sha256.Sum256(got); sum != sums[size] {
		return fmt.Errorf("%d bytes arrived that are not the %d of the file", len(got), size)
	}
	return nil
}
