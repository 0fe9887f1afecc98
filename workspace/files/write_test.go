package files

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWrite(t *testing.T) {
	tree, dir := granted(t, map[string]string{"a.txt": "one\ntwo\n", "run.sh": "#!/bin/sh\n", "d/x": ""})
	must(t, os.Chmod(filepath.Join(dir, "run.sh"), 0o754))
	yes, no := true, false
	sum := func(s string) string { return sumOf([]byte(s)) }
	for _, tt := range []struct {
		path string
		q    WriteRequest
		want string
		mode os.FileMode
	}{
		{"new.txt", WriteRequest{Mode: "create", Content: []byte("new\n")}, "ok", 0o644},
		{"new.txt", WriteRequest{Mode: "create", Content: []byte("again")}, "exists", 0},
		{"x/y/z.txt", WriteRequest{Mode: "create", Content: []byte("z")}, "not_found", 0},
		{"x/y/z.sh", WriteRequest{Mode: "create", Content: []byte("z"), Mkdirs: true, Executable: &yes}, "ok", 0o755},
		{"a.txt/b", WriteRequest{Mode: "create", Mkdirs: true}, "not_directory", 0},
		{"a.txt", WriteRequest{Mode: "overwrite", Content: []byte("x")}, "bad_arguments", 0},
		{"a.txt", WriteRequest{Mode: "overwrite", Content: []byte("x"), IfSHA256: sum("other")}, "changed", 0},
		{"a.txt", WriteRequest{Mode: "overwrite", Content: []byte("x"), IfSHA256: "ABC"}, "bad_arguments", 0},
		{"a.txt", WriteRequest{Mode: "overwrite", Content: []byte("one\n2\n"), IfSHA256: sum("one\ntwo\n")}, "ok", 0o644},
		{"run.sh", WriteRequest{Mode: "overwrite", Content: []byte("#!/bin/sh\nexit\n"), IfSHA256: sum("#!/bin/sh\n")}, "ok", 0o754},
		{"run.sh", WriteRequest{Mode: "overwrite", Content: []byte("#!/bin/sh\nexit\n"), IfSHA256: sum("#!/bin/sh\nexit\n"), Executable: &no}, "ok", 0o644},
		{"none.txt", WriteRequest{Mode: "overwrite", Content: []byte("x"), IfSHA256: sum("")}, "not_found", 0},
		{"d", WriteRequest{Mode: "create"}, "is_directory", 0},
		{"d", WriteRequest{Mode: "append"}, "bad_arguments", 0},
		{"b.bin", WriteRequest{Mode: "create", Content: []byte("a\x00b\xff")}, "bad_arguments", 0},
		{"b.bin", WriteRequest{Mode: "create", Content: []byte("a\x00b")}, "bad_arguments", 0},
		{"b.bin", WriteRequest{Mode: "create", Content: []byte("a\x00b\xff"), Raw: true}, "ok", 0o644},
		{"u.txt", WriteRequest{Mode: "create", Content: []byte("lost \ufffd bytes")}, "bad_arguments", 0}, // 83
		{"u.txt", WriteRequest{Mode: "create", Content: []byte("wanted \ufffd"), Raw: true}, "ok", 0o644},
		{"u.txt", WriteRequest{Mode: "overwrite", Content: []byte("kept \ufffd"), IfSHA256: sum("wanted \ufffd")}, "ok", 0o644},
		{"big", WriteRequest{Mode: "create", Content: make([]byte, maxWrite+1), Raw: true}, "too_large", 0},
	} {
		name := filepath.Join(dir, tt.path)
		before := snapshot(t, dir)
		tt.q.Path = pathOf(t, "app/"+tt.path)
		r, err := tree.Write(context.Background(), tt.q)
		if verdict(err) != tt.want {
			t.Errorf("%s %s: %v, want %s", tt.q.Mode, tt.path, err, tt.want)
		}
		if err != nil {
			if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
				t.Errorf("%s was refused and changed: %s", tt.path, diff)
			}
			continue
		}
		st, err := os.Stat(name)
		must(t, err)
		if b, _ := os.ReadFile(name); string(b) != string(tt.q.Content) || st.Mode().Perm() != tt.mode || r.NewSHA256 != sumOf(b) {
			t.Errorf("%s has %q mode %o", tt.path, b, st.Mode().Perm())
		}
	}
	r, err := tree.Write(context.Background(), WriteRequest{Path: pathOf(t, "app/a.txt"), Mode: "overwrite", Content: []byte("one\n2\n3\n"), IfSHA256: sum("one\n2\n")})
	if want := fmt.Sprintf("app/a.txt overwritten size=8 sha256=%s old_size=6 old_sha256=%s lines=+1/-0", sum("one\n2\n3\n"), sum("one\n2\n")); err != nil || r.Header != want {
		t.Errorf("header %q %v, want %q", r.Header, err, want)
	}
	leftovers(t, dir)
}

// leftovers checks that no temporary file is left.
func leftovers(t *testing.T, dir string) {
	t.Helper()
	for name := range snapshot(t, dir) {
		if strings.Contains(name, tempPrefix) {
			t.Errorf("%s was left", name)
		}
	}
}

func TestWriteKeepsOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("chown needs root")
	}
	tree, dir := granted(t, map[string]string{"a.txt": "a"})
	name := filepath.Join(dir, "a.txt")
	must(t, os.Chown(name, 1234, 2345))
	must(t, os.Chmod(name, 0o640|os.ModeSetuid))
	_, err := tree.Edit(context.Background(), EditRequest{Path: pathOf(t, "app/a.txt"), Edits: []TextEdit{{Old: "a", New: "b"}}})
	must(t, err)
	p, err := tree.roots[0].base.pin("a.txt")
	must(t, err)
	defer p.close()
	st, err := os.Stat(name)
	must(t, err)
	if p.uid != 1234 || p.gid != 2345 || st.Mode() != 0o640 {
		t.Errorf("owner %d:%d mode %v", p.uid, p.gid, st.Mode())
	}
}

// TestCase77OneWriterWins: many sessions overwrite by the same hash.
func TestCase77OneWriterWins(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{"a.txt": "start"})
	trees := []*Tree{open(t, RootSpec{Name: "app", Dir: dir, Rights: all}), open(t, RootSpec{Name: "app", Dir: dir, Rights: all})}
	for round := range 20 {
		now, err := os.ReadFile(filepath.Join(dir, "a.txt"))
		must(t, err)
		var won, made atomic.Int32
		var winner atomic.Value
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				content := fmt.Sprintf("round %d writer %d", round, i)
				_, err := trees[i%2].Write(context.Background(), WriteRequest{Path: pathOf(t, "app/a.txt"), Mode: "overwrite", Content: []byte(content), IfSHA256: sumOf(now)})
				switch verdict(err) {
				case "ok":
					won.Add(1)
					winner.Store(content)
				case "changed":
				default:
					t.Errorf("%v", err)
				}
				_, err = trees[i%2].Write(context.Background(), WriteRequest{Path: pathOf(t, fmt.Sprintf("app/new%d", round)), Mode: "create", Content: []byte(content)})
				if err == nil {
					made.Add(1)
				}
			})
		}
		wg.Wait()
		if b, _ := os.ReadFile(filepath.Join(dir, "a.txt")); won.Load() != 1 || made.Load() != 1 || string(b) != winner.Load() {
			t.Fatalf("%d overwrites and %d creates won; the file has %q", won.Load(), made.Load(), b)
		}
	}
	leftovers(t, dir)
}

// TestCase78UserSavesMeanwhile: the file changes after the hash was checked and
// right before the rename. What the user saved is there afterwards.
func TestCase78UserSavesMeanwhile(t *testing.T) {
	for name, save := range map[string]func(t *testing.T, file string){
		"in place": func(t *testing.T, f string) { must(t, os.WriteFile(f, []byte("user's"), 0o644)) },
		"by rename": func(t *testing.T, f string) {
			must(t, os.WriteFile(f+"~", []byte("user's"), 0o644))
			must(t, os.Rename(f+"~", f))
		},
		"deleted":      func(t *testing.T, f string) { must(t, os.Remove(f)) },
		"to a link":    func(t *testing.T, f string) { must(t, os.Remove(f)); must(t, os.Symlink("other", f)) },
		"to directory": func(t *testing.T, f string) { must(t, os.Remove(f)); must(t, os.Mkdir(f, 0o755)) },
		"directory moved": func(t *testing.T, f string) {
			must(t, os.Rename(filepath.Dir(f), filepath.Dir(f)+"2"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			tree, dir := granted(t, map[string]string{"d/a.txt": "start"})
			w, err := tree.openPlace(pathOf(t, "app/d/a.txt"), false)
			must(t, err)
			defer w.close()
			must(t, w.load(w.path, sumOf([]byte("start")), maxHashed))
			save(t, filepath.Join(dir, "d/a.txt"))
			before := snapshot(t, dir)
			if err := w.store(context.Background(), []byte("provider's"), 0o644); verdict(explain(err, "app/d/a.txt")) != "changed" {
				t.Errorf("store: %v", err)
			}
			if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestRevokedBeforeCommit: a session that ends while a write is under way leaves
// nothing.
func TestCase66RevokedBeforeCommit(t *testing.T) {
	tree, dir := granted(t, map[string]string{"a.txt": "start"})
	ctx, cancel := context.WithCancel(context.Background())
	w, err := tree.openPlace(pathOf(t, "app/a.txt"), false)
	must(t, err)
	defer w.close()
	must(t, w.load(w.path, "", maxHashed))
	cancel()
	if err := w.store(ctx, []byte("late"), 0o644); verdict(explain(err, "")) != "cancelled" {
		t.Errorf("store: %v", err)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "a.txt")); string(b) != "start" {
		t.Errorf("written: %q", b)
	}
	leftovers(t, dir)
}
