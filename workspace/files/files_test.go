package files

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/weftmesh/weft/workspace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const all = workspace.Read | workspace.Write | workspace.Delete | workspace.Exec

// put writes files below dir: a name that ends in / is a directory, content that
// starts with "-> " makes a symbolic link.
func put(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		full := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(full), 0o755))
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(full, 0o755))
		} else if target, ok := strings.CutPrefix(content, "-> "); ok {
			must(t, os.Symlink(target, full))
		} else {
			must(t, os.WriteFile(full, []byte(content), 0o644))
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, specs ...RootSpec) *Tree {
	t.Helper()
	tree, err := OpenTree(specs, DefaultRules())
	must(t, err)
	t.Cleanup(func() { must(t, tree.Close()) })
	return tree
}

// granted is a tree with one root named app, with every right.
func granted(t testing.TB, files map[string]string) (*Tree, string) {
	t.Helper()
	dir := t.TempDir()
	put(t, dir, files)
	return open(t, RootSpec{Name: "app", Dir: dir, Rights: all}), dir
}

func pathOf(t testing.TB, s string) workspace.Path {
	t.Helper()
	p, refusal := workspace.ParsePath(s)
	if refusal != nil {
		t.Fatalf("%s: %v", s, refusal)
	}
	return p
}

// verdict is the stable part of an error: the refusal's code or the failure's
// reason, "ok" for nil.
func verdict(err error) string {
	var r *workspace.Refusal
	var f *workspace.Failure
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &r):
		return string(r.Code)
	case errors.As(err, &f):
		return f.Reason
	}
	return "untyped: " + err.Error()
}

func (h *verbs) read(p string) (string, error) {
	r, err := h.tree.Read(h.ctx, ReadRequest{Path: pathOf(h.t, p)})
	return string(r.Text()), err
}

// verbs runs each tool on a path.
type verbs struct {
	t    testing.TB
	ctx  context.Context
	tree *Tree
}

func use(t testing.TB, tree *Tree) *verbs { return &verbs{t, context.Background(), tree} }

// each calls every operation on a path, as a reader, lister, searcher and
// writer would, and returns the errors by name.
func (h *verbs) each(s string) map[string]error {
	p := pathOf(h.t, s)
	errs := map[string]error{}
	_, errs["read"] = h.tree.Read(h.ctx, ReadRequest{Path: p})
	_, errs["read bytes"] = h.tree.Read(h.ctx, ReadRequest{Path: p, Offset: 1, Length: 3, Encoding: "base64"})
	_, errs["stat"] = h.tree.Stat(h.ctx, StatRequest{p})
	_, errs["list"] = h.tree.List(h.ctx, ListRequest{Path: p})
	_, errs["glob"] = h.tree.Glob(h.ctx, GlobRequest{Path: p, Pattern: "**"})
	_, errs["grep"] = h.tree.Grep(h.ctx, GrepRequest{Path: p, Pattern: "."})
	_, errs["create"] = h.tree.Write(h.ctx, WriteRequest{Path: p, Mode: "create", Content: []byte("x")})
	_, errs["mkdirs"] = h.tree.Write(h.ctx, WriteRequest{Path: p, Mode: "create", Content: []byte("x"), Mkdirs: true})
	_, errs["overwrite"] = h.tree.Write(h.ctx, WriteRequest{Path: p, Mode: "overwrite", Content: []byte("x"), IfSHA256: sumOf(nil)})
	_, errs["edit"] = h.tree.Edit(h.ctx, EditRequest{Path: p, Edits: []TextEdit{{Old: "a", New: "b"}}})
	return errs
}

// snapshot is every name below dir with its content, to prove that nothing
// changed.
func snapshot(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		all[p] = d.Type().String()
		if d.Type().IsRegular() {
			b, err := os.ReadFile(p)
			all[p] += string(b)
			return err
		}
		return nil
	}))
	return all
}

// fakeRedactor replaces one value, as package redact would.
type fakeRedactor struct{ value string }

func (f fakeRedactor) Redact(p []byte) ([]byte, int) {
	n := bytes.Count(p, []byte(f.value))
	if n == 0 {
		return p, 0
	}
	return bytes.ReplaceAll(p, []byte(f.value), []byte("[REDACTED:test]")), n
}
