package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func numbered(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

func TestReadLines(t *testing.T) {
	wide := strings.Repeat("é", 2500)
	tree, _ := granted(t, map[string]string{
		"five.txt": numbered(1, 5), "noeol.txt": "a\nb", "empty.txt": "", "crlf.txt": "a\r\n\tb\r\n", "mixed.txt": "a\r\nb\n", "bom.txt": "\xef\xbb\xbfa\n",
		"long.txt": numbered(1, 9000), "wide.txt": "x\n" + wide + "\ny\n", "newlines.txt": "\n\n\n", "one.txt": strings.Repeat("z", 3<<20)})
	tests := []struct {
		name string
		q    ReadRequest
		body string
		want ReadResult
	}{
		{"whole", ReadRequest{}, numbered(1, 5), ReadResult{StartLine: 1, EndLine: 5, TotalLines: 5, Length: 35, EOL: "lf"}},
		{"middle", ReadRequest{StartLine: 2, MaxLines: 2}, numbered(2, 3), ReadResult{StartLine: 2, EndLine: 3, TotalLines: 5, Offset: 7, Length: 14, EOL: "lf", Next: "start_line=4"}},
		{"last", ReadRequest{StartLine: 5}, numbered(5, 5), ReadResult{StartLine: 5, EndLine: 5, TotalLines: 5, Offset: 28, Length: 7, EOL: "lf"}},
		{"numbers", ReadRequest{StartLine: 4, Numbers: true}, "4\tline 4\n5\tline 5\n", ReadResult{StartLine: 4, EndLine: 5, TotalLines: 5, Offset: 21, Length: 14, EOL: "lf"}},
		{"noeol.txt", ReadRequest{}, "a\nb", ReadResult{StartLine: 1, EndLine: 2, TotalLines: 2, Length: 3, EOL: "lf"}},
		{"empty.txt", ReadRequest{}, "", ReadResult{EOL: "none"}},
		{"crlf.txt", ReadRequest{}, "a\r\n\tb\r\n", ReadResult{StartLine: 1, EndLine: 2, TotalLines: 2, Length: 7, EOL: "crlf"}},
		{"mixed.txt", ReadRequest{}, "a\r\nb\n", ReadResult{StartLine: 1, EndLine: 2, TotalLines: 2, Length: 5, EOL: "mixed"}},
		{"bom.txt", ReadRequest{}, "\ufeffa\n", ReadResult{StartLine: 1, EndLine: 1, TotalLines: 1, Length: 5, EOL: "lf", BOM: true}},
		{"newlines.txt", ReadRequest{StartLine: 3}, "\n", ReadResult{StartLine: 3, EndLine: 3, TotalLines: 3, Offset: 2, Length: 1, EOL: "lf"}},
		{"wide.txt", ReadRequest{}, "x\n" + strings.Repeat("é", 2000) + "[line cut after 4000 of 5001 bytes: go on with offset=4002]\ny\n",
			ReadResult{StartLine: 1, EndLine: 3, TotalLines: 3, Length: 5005, EOL: "lf"}},
		{"long.txt", ReadRequest{StartLine: 8999}, numbered(8999, 9000), ReadResult{StartLine: 8999, EndLine: 9000, TotalLines: 9000, Offset: int64(len(numbered(1, 8998))), Length: 20, EOL: "lf"}},
		{"long.txt", ReadRequest{StartLine: 4097, MaxLines: 1}, numbered(4097, 4097), ReadResult{StartLine: 4097, EndLine: 4097, TotalLines: 9000, Offset: int64(len(numbered(1, 4096))), Length: 10, EOL: "lf", Next: "start_line=4098"}},
		{"long.txt", ReadRequest{}, numbered(1, 2000), ReadResult{StartLine: 1, EndLine: 2000, TotalLines: 9000, Length: int64(len(numbered(1, 2000))), EOL: "lf", Next: "start_line=2001"}},
		{"one.txt", ReadRequest{MaxBytes: 1024}, strings.Repeat("z", 896) + "[line cut after 896 of 1048576 bytes: go on with offset=896]\n",
			ReadResult{StartLine: 1, EndLine: 1, TotalLines: 1, Length: 1 << 20, EOL: "none", Next: "offset=896"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			name := tt.name
			if !strings.Contains(name, ".") {
				name = "five.txt"
			}
			tt.q.Path = pathOf(t, "app/"+name)
			got, err := tree.Read(context.Background(), tt.q)
			must(t, err)
			if string(got.Body) != tt.body {
				t.Errorf("body %.200q, want %.200q", got.Body, tt.body)
			}
			if got.Truncated != (tt.want.Next != "") || got.Kind != Text {
				t.Errorf("truncated %v kind %s", got.Truncated, got.Kind)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(ReadResult{}, "Output", "Size", "SHA256")); diff != "" {
				t.Error(diff)
			}
		})
	}
	r, err := tree.Read(context.Background(), ReadRequest{Path: pathOf(t, "app/five.txt"), StartLine: 2, MaxLines: 1})
	sum := sha256.Sum256([]byte(numbered(1, 5)))
	if want := "app/five.txt size=35 sha256=" + hex.EncodeToString(sum[:]) + " lines=2-2/5 eol=lf encoding=utf-8 truncated=yes next: start_line=3\nline 2\n"; err != nil || string(r.Text()) != want {
		t.Errorf("%q %v, want %q", r.Text(), err, want)
	}
}

func TestReadBadArguments(t *testing.T) {
	tree, _ := granted(t, map[string]string{"a.txt": "a\nb\n", "d/x": "", "bin": "a\x00b", "latin1": "caf\xe9\n", "utf16": "\xff\xfea\x00", "big.png": "\x89PNG\r\n\x1a\n" + strings.Repeat("x", maxImage)})
	for _, tt := range []struct {
		path string
		q    ReadRequest
		want string
	}{
		{"a.txt", ReadRequest{StartLine: 3}, "not_found"}, {"a.txt", ReadRequest{Offset: 4}, "not_found"}, {"a.txt", ReadRequest{Offset: 9}, "not_found"},
		{"a.txt", ReadRequest{StartLine: 1, Offset: 1}, "bad_arguments"}, {"a.txt", ReadRequest{StartLine: -1}, "bad_arguments"}, {"a.txt", ReadRequest{MaxLines: 2001}, "bad_arguments"},
		{"a.txt", ReadRequest{Length: maxRange + 1}, "too_large"}, {"a.txt", ReadRequest{Encoding: "latin1"}, "bad_arguments"}, {"a.txt", ReadRequest{Offset: -1}, "bad_arguments"},
		{"none", ReadRequest{}, "not_found"}, {"a.txt/x", ReadRequest{}, "not_directory"}, {"d", ReadRequest{}, "is_directory"}, {"bin", ReadRequest{}, "binary"},
		{"latin1", ReadRequest{}, "binary"}, {"latin1", ReadRequest{Offset: 1}, "binary"}, {"utf16", ReadRequest{}, "binary"}, {"big.png", ReadRequest{}, "too_large"},
		{"latin1", ReadRequest{Encoding: "base64"}, "ok"}, {"bin", ReadRequest{Encoding: "base64"}, "ok"}, {"big.png", ReadRequest{Offset: 5, Encoding: "base64"}, "ok"},
	} {
		tt.q.Path = pathOf(t, "app/"+tt.path)
		if _, err := tree.Read(context.Background(), tt.q); verdict(err) != tt.want {
			t.Errorf("%s %+v: %v, want %s", tt.path, tt.q, err, tt.want)
		}
	}
	other := "nope/a"
	if _, err := tree.Read(context.Background(), ReadRequest{Path: pathOf(t, other)}); verdict(err) != "outside_grant" {
		t.Errorf("unknown root: %v", err)
	}
}

// TestCase83BytesAreLossless: any file comes back byte for byte, and ranges of
// text of any length join to the file without a broken character.
func TestCase83BytesAreLossless(t *testing.T) {
	all := make([]byte, 70_000)
	for i := range all {
		all[i] = byte(rand.IntN(256))
	}
	text := strings.Repeat("aé漢😀\n", 3000)
	tree, _ := granted(t, map[string]string{"all.bin": string(all), "text.txt": text, "utf16.txt": "\xff\xfeh\x00i\x00", "latin.txt": "caf\xe9"})
	for name, want := range map[string]string{"all.bin": string(all), "text.txt": text, "utf16.txt": "\xff\xfeh\x00i\x00", "latin.txt": "caf\xe9"} {
		for _, step := range []int64{1, 5, 1000, 65_536} {
			if step < 1000 && len(want) > 1000 {
				continue
			}
			var got []byte
			for off := int64(0); off < int64(len(want)); off += step {
				r, err := tree.Read(context.Background(), ReadRequest{Path: pathOf(t, "app/"+name), Offset: off, Length: step, Encoding: "base64"})
				must(t, err)
				if r.Kind != Binary {
					t.Fatalf("kind %s", r.Kind)
				}
				got = append(got, r.Body...)
			}
			if string(got) != want {
				t.Errorf("%s in ranges of %d differs", name, step)
			}
		}
	}
	for _, step := range []int64{1, 2, 3, 7, 1023, 1024} {
		var got []byte
		for off := int64(0); off < min(int64(len(text)), 3000); {
			r, err := tree.Read(context.Background(), ReadRequest{Path: pathOf(t, "app/text.txt"), Offset: off, Length: step})
			must(t, err)
			if r.Offset != off || r.Length == 0 || bytes.ContainsRune(r.Body, '\ufffd') {
				t.Fatalf("offset %d: %+v", off, r)
			}
			got = append(got, r.Body...)
			off = r.Offset + r.Length
		}
		if !strings.HasPrefix(text, string(got)) {
			t.Errorf("ranges of %d differ", step)
		}
	}
	r, err := tree.Read(context.Background(), ReadRequest{Path: pathOf(t, "app/text.txt"), Offset: 2, Length: 5})
	if err != nil || r.Offset != 1 || string(r.Body) != "é漢" || r.Next != "offset=6" {
		t.Errorf("a start inside a character: %d %q %q %v", r.Offset, r.Body, r.Next, err)
	}
}

func TestReadImages(t *testing.T) {
	images := map[string]string{"a.png": "\x89PNG\r\n\x1a\nrest\x00", "b.txt": "\xff\xd8\xff\xe0rest", "c": "GIF89arest", "d.webp": "RIFF\x01\x02\x03\x04WEBPrest"}
	mime := map[string]string{"a.png": "image/png", "b.txt": "image/jpeg", "c": "image/gif", "d.webp": "image/webp"}
	tree, _ := granted(t, images)
	for name, content := range images {
		r, err := tree.Read(context.Background(), ReadRequest{Path: pathOf(t, "app/"+name)})
		if err != nil || r.Kind != Image || r.MIME != mime[name] || string(r.Body) != content {
			t.Errorf("%s: %s %s %v", name, r.Kind, r.MIME, err)
		}
	}
}

// TestReadHugeFileIsStreamed reads from a 50 MB file within little memory.
func TestReadHugeFileIsStreamed(t *testing.T) {
	tree, dir := granted(t, nil)
	line := strings.Repeat("0123456789", 9) + "abcdefghi\n" // 100 bytes
	f, err := os.Create(filepath.Join(dir, "huge.log"))
	must(t, err)
	chunk := []byte(strings.Repeat(line, 10_000))
	for range 50 {
		_, err := f.Write(chunk)
		must(t, err)
	}
	must(t, f.Close())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p := pathOf(t, "app/huge.log")
	for _, q := range []ReadRequest{{Path: p}, {Path: p, StartLine: 499_990}, {Path: p, Offset: 47 << 20, Length: 256 << 10}, {Path: p, Offset: 12345, Encoding: "base64"}} {
		r, err := tree.Read(context.Background(), q)
		must(t, err)
		if r.SHA256 != "" || !strings.Contains(r.Header, "sha256=- ") {
			t.Errorf("header %s", r.Header)
		}
		if q.StartLine > 0 && (r.EndLine != 500_000 || r.TotalLines != 500_000 || r.Truncated || string(r.Body) != strings.Repeat(line, 11)) {
			t.Errorf("the end: %s", r.Header)
		}
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 4<<20 {
		t.Errorf("allocated %d bytes", got)
	}
}

// TestFactsAreNotStale rewrites a file with equal size and time.
func TestFactsAreNotStale(t *testing.T) {
	tree, dir := granted(t, map[string]string{"a.txt": "aaaa\n"})
	name := filepath.Join(dir, "a.txt")
	for i := range 50 {
		content, start := fmt.Sprintf("%04d\n", i), time.Now()
		must(t, os.WriteFile(name, []byte(content), 0o644))
		must(t, os.Chtimes(name, time.Unix(1e9, 0), time.Unix(1e9, 0)))
		for range 2 {
			r, err := tree.Read(context.Background(), ReadRequest{Path: pathOf(t, "app/a.txt")})
			if err != nil || r.SHA256 != sumOf([]byte(content)) || string(r.Body) != content {
				t.Fatalf("stale: %s %q", r.SHA256, r.Body)
			}
		}
		// Kernels before 6.13 could give the next content the same timestamps.
		tree.facts.mu.Lock()
		cached := len(tree.facts.m)
		tree.facts.mu.Unlock()
		if cached > 0 && time.Since(start) < racy {
			t.Fatal("a file that changed just now is cached")
		}
	}
}

func TestCancelledAndClosed(t *testing.T) {
	tree, _ := granted(t, map[string]string{"a.txt": "a"})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	h := use(t, tree)
	h.ctx = ctx
	for verb, err := range h.each("app/a.txt") {
		if v := verdict(err); v != "cancelled" {
			t.Errorf("%s: %v", verb, err)
		}
	}
	must(t, tree.Close())
	for verb, err := range use(t, tree).each("app/a.txt") {
		if v := verdict(err); v != "cancelled" {
			t.Errorf("%s after close: %v", verb, err)
		}
	}
	if err := tree.Rescan(context.Background()); verdict(err) != "cancelled" {
		t.Errorf("rescan after close: %v", err)
	}
}
