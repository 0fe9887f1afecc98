package files

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/weftmesh/weft/workspace"
)

// FuzzEdit: an edit and its inverse give back the same bytes, for files with one
// kind of line end; and no edit changes a byte outside of what it replaces.
func FuzzEdit(f *testing.F) {
	f.Add([]byte("a\nb\nc\n"), "b\n", "x\ny\n", false)
	f.Add([]byte("\xef\xbb\xbfone\ntwo"), "two", "2\n3", true)
	f.Add([]byte("caf\xe9\n\n"), "\n\n", "", true)
	f.Fuzz(func(t *testing.T, file []byte, old, new string, crlf bool) {
		if len(file) > 4096 || len(old) > 512 || len(new) > 512 || strings.ContainsAny(old+new, "\r\x00") || bytes.IndexByte(file, '\r') >= 0 {
			return
		}
		if old == "" || new == "" || old == new || !utf8.ValidString(old) || !utf8.ValidString(new) {
			return
		}
		if crlf {
			file = bytes.ReplaceAll(file, []byte("\n"), []byte("\r\n"))
			// With no line end at all there is nothing to tell CRLF by.
			if !bytes.Contains(file, []byte("\r\n")) {
				return
			}
		}
		e := newEditing(workspace.Path{}, nil, bytes.Clone(file))
		if e.apply(0, TextEdit{Old: old, New: new}) != nil {
			return
		}
		if crlf && bytes.Count(e.text, []byte("\n")) != bytes.Count(e.text, []byte("\r\n")) {
			t.Fatalf("mixed line ends: %q", e.text)
		}
		if crlf && !bytes.Contains(e.text, []byte("\r\n")) {
			return // the edit took the last line end
		}
		if e.apply(1, TextEdit{Old: new, New: old}) != nil {
			return // new occurs elsewhere too
		}
		if !bytes.Equal(e.text, file) {
			t.Fatalf("%q became %q", file, e.text)
		}
	})
}

// FuzzGlobPattern: a pattern that is taken costs little, whatever it is matched
// with.
func FuzzGlobPattern(f *testing.F) {
	f.Add("**/*.go", "src/a/b.go")
	f.Add("{a,b,{c,d}}*{e,f}/**/[!x]?", "a/b/c/d/e")
	f.Add(strings.Repeat("*a", 16), strings.Repeat("a", 200))
	f.Add(strings.Repeat("**/a/", 8), strings.Repeat("a/", 60)+"b")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if checkGlob(pattern) != nil || len(name) > 4096 || strings.Count(name, "/") > 200 {
			return
		}
		start := time.Now()
		doublestar.MatchUnvalidated(pattern, name)
		s := scope{include: []string{pattern}, exclude: []string{pattern}}
		s.excluded(name)
		if in, leads := s.included(name), s.leads(name); in && !leads {
			t.Fatalf("%q is included by %q and doesn't lead to anything", name, pattern)
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Fatalf("%q on %q took %v", pattern, name, took)
		}
	})
}

// FuzzPath: no path leaves the tree, reads the denied file or makes a denied
// name, whatever it is; and no answer names the host's directory.
func FuzzPath(f *testing.F) {
	outside := f.TempDir()
	put(f, outside, map[string]string{"secret": "OUTSIDE"})
	dir := f.TempDir()
	put(f, dir, map[string]string{"a/b/c.txt": "inside", ".env": "DENIED", "out": "-> " + outside, "in": "-> a", "env": "-> .env", "café/x": "inside"})
	tree, err := OpenTree([]RootSpec{{Name: "app", Dir: dir, Rights: all}}, DefaultRules())
	must(f, err)
	f.Cleanup(func() { tree.Close() })
	for _, s := range []string{"app/a/b/c.txt", "app/out/secret", "app/in/b/c.txt", "app/env", "app/.env", "app/../x", "app/.ENV", "app/cafe\u0301/x", "app/a/.git/x", "app/\uff0eenv", "app"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, refusal := workspace.ParsePath(s)
		if refusal != nil {
			return
		}
		ctx := context.Background()
		r, err1 := tree.Read(ctx, ReadRequest{Path: p})
		g, err2 := tree.Grep(ctx, GrepRequest{Path: p, Pattern: "DENIED|OUTSIDE", IncludeIgnored: true})
		st, err3 := tree.Stat(ctx, StatRequest{p})
		_, err4 := tree.Write(ctx, WriteRequest{Path: p, Mode: "create", Content: []byte("made"), Mkdirs: true})
		for _, b := range [][]byte{r.Body, g.Body, []byte(st.Header)} {
			if bytes.Contains(b, []byte("DENIED")) || bytes.Contains(b, []byte("OUTSIDE")) || bytes.Contains(b, []byte(outside)) {
				t.Fatalf("%q shows %q", s, b)
			}
		}
		for _, err := range []error{err1, err2, err3, err4} {
			if err != nil && (strings.Contains(err.Error(), dir) || strings.HasPrefix(verdict(err), "untyped")) {
				t.Fatalf("%q: %v", s, err)
			}
		}
		if err4 == nil {
			made := filepath.Join(dir, filepath.FromSlash(p.Rel()))
			if b, err := os.ReadFile(made); err != nil || string(b) != "made" {
				t.Fatalf("%q was made elsewhere: %v", s, err)
			}
			if DefaultRules().Secret(p.Rel()) || DefaultRules().Protected(p.Rel()) {
				t.Fatalf("%q was made", s)
			}
			top, _, _ := strings.Cut(p.Rel(), "/")
			if top != "a" && top != "café" {
				must(t, os.RemoveAll(filepath.Join(dir, top)))
			} else {
				must(t, os.Remove(made))
			}
		}
		if es, err := os.ReadDir(outside); err != nil || len(es) != 1 {
			t.Fatalf("%q wrote outside: %v %v", s, es, err)
		}
	})
}

// FuzzView: whatever the secrets, ranges of a view join to the redacted text.
func FuzzView(f *testing.F) {
	f.Add([]byte("a SECRET b SECRET\nSECRET"), 3)
	f.Add([]byte("[REDACTED:test] SECRET [REDACTED]"), 1)
	f.Add([]byte("SECRETSECRET"), 5)
	f.Fuzz(func(t *testing.T, raw []byte, step int) {
		if step < 1 || len(raw) > 4096 {
			return
		}
		v := newView(fakeRedactor{"SECRET"}, raw)
		var joined []byte
		for i := 0; i < len(raw); i += step {
			b, _ := v.cut(i, min(i+step, len(raw)))
			joined = append(joined, b...)
		}
		if !bytes.Equal(joined, v.out) {
			t.Fatalf("%q in steps of %d: %q, want %q", raw, step, joined, v.out)
		}
	})
}
