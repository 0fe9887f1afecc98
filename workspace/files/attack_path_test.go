package files

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftmesh/weft/workspace"
)

// The numbers are those of reference/workspace.md, section 3.

// allRefused checks that every verb gives the same refusal.
func allRefused(t *testing.T, tree *Tree, path string, code workspace.Code) {
	t.Helper()
	for verb, err := range use(t, tree).each(path) {
		if got := verdict(err); got != string(code) {
			t.Errorf("%s of %s: %s, want %s (%v)", verb, path, got, code, err)
		}
	}
}

func TestCase01And16And21BadPathsDontParse(t *testing.T) {
	for _, s := range []string{"app/../x", "../x", "app/..", "/etc/passwd", "~/x", `app\x`, "C:/x", "app//x", "app/x/",
		"app/a\x00b", "app/a\nb", "app/a\x1bb", "app/\u202eb", "app/x.", "app/x ", "app/" + strings.Repeat("a", 256), strings.Repeat("a/", 5000) + "a"} {
		if _, refusal := workspace.ParsePath(s); refusal == nil || refusal.Code != workspace.BadPath {
			t.Errorf("%.40q: %v", s, refusal)
		}
	}
}

func TestCase02PrefixConfusion(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{"repo/a.txt": "in", "repo-evil/b.txt": "out"})
	tree := open(t, RootSpec{Name: "repo", Dir: filepath.Join(dir, "repo"), Rights: all})
	for _, p := range []string{"repo-evil/b.txt", "rep/a.txt", "Repo/a.txt"} {
		allRefused(t, tree, p, workspace.OutsideGrant)
	}
}

func TestCase03To07SymbolicLinks(t *testing.T) {
	outside := t.TempDir()
	put(t, outside, map[string]string{"secret.txt": "outside", "d/f": "outside"})
	links := map[string]string{
		"inside.txt": "inside", "d/inside.txt": "inside", ".env": "K=topsecretvalue",
		"out-abs.txt": "-> " + outside + "/secret.txt",
		"out-rel.txt": "-> ../../../../../../etc/hostname",
		"out-dir":     "-> " + outside + "/d",
		"in.txt":      "-> inside.txt",
		"innocent":    "-> .env",
		"dangling":    "-> .env.new",
		"loop":        "-> loop",
		"loopdir":     "-> .",
		"proc":        "-> /proc/self/environ",
		"fd":          "-> /proc/self/fd",
		"a":           "-> b", "b": "-> c", "c": "-> inside.txt",
	}
	tree, dir := granted(t, links)
	must(t, os.Symlink(filepath.Join(dir, "inside.txt"), filepath.Join(dir, "in-abs.txt")))
	before := snapshot(t, dir)
	h := use(t, tree)
	for _, p := range []string{"app/out-abs.txt", "app/out-rel.txt", "app/out-dir", "app/out-dir/f", "app/in.txt", "app/in-abs.txt",
		"app/innocent", "app/dangling", "app/loop", "app/loop/x", "app/loopdir", "app/loopdir/inside.txt", "app/loopdir/loopdir/d/inside.txt",
		"app/proc", "app/fd", "app/fd/0", "app/a"} {
		for verb, err := range h.each(p) {
			last := !strings.Contains(strings.TrimPrefix(p, "app/"), "/")
			if verb == "stat" && last {
				if err != nil {
					t.Errorf("stat %s: %v", p, err)
				}
				continue
			}
			if got := verdict(err); got != "special_file" {
				t.Errorf("%s of %s: %s, want special_file (%v)", verb, p, got, err)
			}
		}
	}
	allRefused(t, tree, "app/loopdir/loopdir/.env", workspace.SecretPath) // 7
	if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
		t.Errorf("the tree changed: %s", diff)
	}
	for link, want := range map[string]string{"app/in.txt": "app/inside.txt", "app/in-abs.txt": "app/inside.txt", "app/loopdir": "app",
		"app/out-abs.txt": "", "app/out-dir": "", "app/innocent": "", "app/dangling": "", "app/loop": "app/loop", "app/proc": ""} {
		r, err := tree.Stat(h.ctx, StatRequest{pathOf(t, link)})
		if err != nil || r.Type != "symlink" || r.Target != want || r.Size != 0 {
			t.Errorf("stat %s: type %s target %q size %d, %v; want target %q", link, r.Type, r.Target, r.Size, err, want)
		}
		if strings.Contains(string(r.Text()), outside) || strings.Contains(string(r.Text()), ".env") {
			t.Errorf("stat %s shows a target: %s", link, r.Text())
		}
	}
}

// TestCase08SwapRace swaps a directory and a file for symbolic links while all
// verbs run: none may ever see outside.
func TestCase08And09SwapRace(t *testing.T) {
	outside := t.TempDir()
	put(t, outside, map[string]string{"f.txt": "OUTSIDE", "OUTSIDE-name": "OUTSIDE"})
	tree, dir := granted(t, map[string]string{"d/f.txt": "inside", "g.txt": "inside"})
	must(t, os.Symlink(outside, filepath.Join(dir, "zlink")))
	must(t, os.Symlink(filepath.Join(outside, "f.txt"), filepath.Join(dir, "zfile")))
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		d, link, tmp := filepath.Join(dir, "d"), filepath.Join(dir, "zlink"), filepath.Join(dir, "ztmp")
		g, glink := filepath.Join(dir, "g.txt"), filepath.Join(dir, "zfile")
		for !stop.Load() {
			for _, pair := range [][2]string{{d, link}, {g, glink}} {
				_ = os.Rename(pair[0], tmp)
				_ = os.Rename(pair[1], pair[0])
				_ = os.Rename(pair[0], pair[1])
				_ = os.Rename(tmp, pair[0])
			}
		}
	})
	h := use(t, tree)
	rounds := 10_000
	if testing.Short() {
		rounds = 500
	}
	inside, refused := 0, 0
	for i := range rounds {
		p := []string{"app/d/f.txt", "app/g.txt"}[i%2]
		text, err := h.read(p)
		if strings.Contains(text, "OUTSIDE") {
			t.Fatal("read outside")
		}
		switch v := verdict(err); v {
		case "ok":
			inside++
		case "special_file", "not_found":
			refused++
		default:
			t.Fatalf("%v", err)
		}
		if i%10 == 0 {
			l, _ := tree.List(h.ctx, ListRequest{Path: pathOf(t, "app"), Depth: 3})
			g, _ := tree.Grep(h.ctx, GrepRequest{Path: pathOf(t, "app"), Pattern: "OUTSIDE"})
			w, _ := tree.Glob(h.ctx, GlobRequest{Path: pathOf(t, "app"), Pattern: "**/OUTSIDE*"})
			e, err := tree.Edit(h.ctx, EditRequest{Path: pathOf(t, "app/d/f.txt"), Edits: []TextEdit{{Old: "OUTSIDE", New: "changed"}}})
			for _, o := range []Output{l.Output, g.Output, w.Output, e.Output} {
				if strings.Contains(string(o.Body), "OUTSIDE") {
					t.Fatalf("shown: %s", o.Body)
				}
			}
			if err == nil {
				t.Fatal("edited outside")
			}
			if i%200 == 0 {
				_, _ = tree.Write(h.ctx, WriteRequest{Path: pathOf(t, fmt.Sprintf("app/d/new%d", i)), Mode: "create", Content: []byte("x")})
			}
		}
	}
	stop.Store(true)
	wg.Wait()
	if inside == 0 || refused == 0 {
		t.Errorf("no race: %d reads inside, %d refused", inside, refused)
	}
	left, err := os.ReadDir(outside)
	must(t, err)
	if b, _ := os.ReadFile(filepath.Join(outside, "f.txt")); len(left) != 2 || string(b) != "OUTSIDE" {
		t.Errorf("outside changed: %v %s", left, b)
	}
}

func TestCase10HardLinkToDenied(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{".env": "K=topsecretvalue", "plain.txt": "plain"})
	must(t, os.Link(filepath.Join(dir, ".env"), filepath.Join(dir, "notes.txt")))
	must(t, os.Link(filepath.Join(dir, "plain.txt"), filepath.Join(dir, "same.txt")))
	tree := open(t, RootSpec{Name: "app", Dir: dir, Rights: all})
	allRefusedExcept(t, tree, "app/notes.txt")
	h := use(t, tree)
	if text, err := h.read("app/same.txt"); err != nil || !strings.HasSuffix(text, "plain") {
		t.Errorf("an ordinary hard link: %q %v", text, err)
	}
	// Planted after the start: refused once the tree was scanned again.
	must(t, os.Link(filepath.Join(dir, ".env"), filepath.Join(dir, "late.txt")))
	must(t, tree.Rescan(h.ctx))
	allRefusedExcept(t, tree, "app/late.txt")
	for _, o := range h.outputs("app", "topsecret") {
		if strings.Contains(o, "notes.txt") || strings.Contains(o, "late.txt") || strings.Contains(o, "topsecret") {
			t.Errorf("shown: %s", o)
		}
	}
	// Writing one name of an ordinary hard link leaves the other.
	r, err := tree.Edit(h.ctx, EditRequest{Path: pathOf(t, "app/same.txt"), Edits: []TextEdit{{Old: "plain", New: "changed"}}})
	if b, _ := os.ReadFile(filepath.Join(dir, "plain.txt")); err != nil || string(b) != "plain" || r.SeveredLinks != 1 {
		t.Errorf("the other name has %q, severed %d, %v", b, r.SeveredLinks, err)
	}
}

// allRefusedExcept is allRefused with SecretPath for a file that exists under a
// name that is allowed, so that list is about its type.
func allRefusedExcept(t *testing.T, tree *Tree, path string) {
	t.Helper()
	for verb, err := range use(t, tree).each(path) {
		if got := verdict(err); got != string(workspace.SecretPath) {
			t.Errorf("%s of %s: %s, want secret_path (%v)", verb, path, got, err)
		}
	}
}

// outputs is what list, glob and grep show of a directory.
func (h *verbs) outputs(dir, pattern string) []string {
	p := pathOf(h.t, dir)
	l, err := h.tree.List(h.ctx, ListRequest{Path: p, Depth: 5, IncludeIgnored: true})
	must(h.t, err)
	g, err := h.tree.Glob(h.ctx, GlobRequest{Path: p, Pattern: "**", IncludeIgnored: true})
	must(h.t, err)
	s, err := h.tree.Grep(h.ctx, GrepRequest{Path: p, Pattern: pattern, IncludeIgnored: true})
	must(h.t, err)
	return []string{string(l.Text()), string(g.Text()), string(s.Text())}
}

func TestCase18And19NamesAreFolded(t *testing.T) {
	secret := []string{".ENV", ".Env.local", ".SSH/Id_Rsa", ".ſsh/x", ".GIT/config", ".\uff45nv", "\uff0eenv",
		"ID_RSA", "My_KEY.txt", "Credentials.json", "x.PEM", "a/b/.Aws/c", ".DOCKER/Config.JSON", ".\u212aube/config", "TERRAFORM.tfstate.backup", ".git/modules/a/b/CONFIG"}
	r := DefaultRules()
	for _, s := range secret {
		if !r.Secret(s) {
			t.Errorf("%q is not secret", s)
		}
	}
	// Names on disk may have what ParsePath doesn't take.
	for _, s := range []string{".g\u200cit/config", ".env.", ".env ", ".e\u00adnv", "\ufeff.env", ".env\ufe0f", "id\u2060_rsa"} {
		if !r.Secret(s) {
			t.Errorf("%q is not secret", s)
		}
	}
	for _, s := range []string{".gıt/x"} { // a dotless i is another letter on every file system
		if r.Protected(s) {
			t.Errorf("%q is protected", s)
		}
	}
	for _, s := range []string{".Git/hooks/x", "a/.GIT", ".g\u200cit/x", ".GitModules", "s/.gitattributes", ".Claude/settings.json", ".VSCODE/Tasks.json"} {
		if !r.Protected(s) {
			t.Errorf("%q is not protected", s)
		}
	}
	for _, s := range []string{"", "src/main.go", "environment.go", "keys/readme", "tokens.md", "monkey.go", "widget.go", "idea.md", ".github/workflows/ci.yml", "docs/config"} {
		if r.Secret(s) || r.Protected(s) {
			t.Errorf("%q is denied", s)
		}
	}
}

func TestCase20ComposedNameFindsDecomposedFile(t *testing.T) {
	const nfd, nfc = "cafe\u0301", "caf\u00e9"
	tree, dir := granted(t, map[string]string{nfd + "/" + nfd + ".txt": "found", "src/a.txt": "x"})
	h := use(t, tree)
	p := "app/" + nfc + "/" + nfc + ".txt"
	if text, err := h.read(p); err != nil || !strings.HasSuffix(text, "found") {
		t.Fatalf("read: %q %v", text, err)
	}
	if _, err := tree.Write(h.ctx, WriteRequest{Path: pathOf(t, p), Mode: "create", Content: []byte("twin")}); verdict(err) != "exists" {
		t.Errorf("create of the same name in another form: %v", err)
	}
	if _, err := tree.Edit(h.ctx, EditRequest{Path: pathOf(t, p), Edits: []TextEdit{{Old: "found", New: "edited"}}}); err != nil {
		t.Errorf("edit: %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, nfd, nfd+".txt")); err != nil || string(b) != "edited" {
		t.Errorf("on disk: %q %v", b, err)
	}
	g, err := tree.Glob(h.ctx, GlobRequest{Path: pathOf(t, "app"), Pattern: "**/" + nfc + "*"})
	if err != nil || len(g.Paths) != 1 {
		t.Errorf("glob: %v %v", g.Paths, err)
	}
}

func TestCase21LongNamesLeaveNothing(t *testing.T) {
	tree, dir := granted(t, map[string]string{"a.txt": "x"})
	long := "app/" + strings.Repeat(strings.Repeat("d", 100)+"/", 38) + strings.Repeat("é", 120) // near 4096 bytes
	before := snapshot(t, dir)
	_, err := tree.Write(use(t, tree).ctx, WriteRequest{Path: pathOf(t, long), Mode: "create", Content: []byte("x")})
	if verdict(err) != "not_found" {
		t.Errorf("create: %v", err)
	}
	if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
		t.Errorf("partial create: %s", diff)
	}
}

func TestCase22WriteThroughDanglingLink(t *testing.T) {
	tree, dir := granted(t, map[string]string{"ok.txt": "-> .env"})
	h := use(t, tree)
	for _, mode := range []string{"create", "overwrite"} {
		q := WriteRequest{Path: pathOf(t, "app/ok.txt"), Mode: mode, Content: []byte("x")}
		if mode == "overwrite" {
			q.IfSHA256 = sumOf(nil)
		}
		if _, err := tree.Write(h.ctx, q); verdict(err) != "special_file" {
			t.Errorf("%s: %v", mode, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, ".env")); !os.IsNotExist(err) {
		t.Errorf(".env was made: %v", err)
	}
}

func TestCase23RootMovedOrReplaced(t *testing.T) {
	top := t.TempDir()
	dir, other := filepath.Join(top, "repo"), filepath.Join(top, "moved")
	steps := []struct {
		name string
		do   func(t *testing.T)
	}{
		{"renamed", func(t *testing.T) { must(t, os.Rename(dir, other)) }},
		{"replaced", func(t *testing.T) {
			must(t, os.Rename(dir, other))
			put(t, dir, map[string]string{"a.txt": "impostor"})
		}},
		{"replaced by a link to itself", func(t *testing.T) { must(t, os.Rename(dir, other)); must(t, os.Symlink(other, dir)) }},
		{"deleted", func(t *testing.T) { must(t, os.RemoveAll(dir)) }},
	}
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) {
			must(t, os.RemoveAll(dir))
			must(t, os.RemoveAll(other))
			put(t, dir, map[string]string{"a.txt": "a"})
			tree := open(t, RootSpec{Name: "app", Dir: dir, Rights: all})
			if _, err := use(t, tree).read("app/a.txt"); err != nil {
				t.Fatal(err)
			}
			s.do(t)
			for verb, err := range use(t, tree).each("app/a.txt") {
				if v := verdict(err); v != "outside_grant" {
					t.Errorf("%s: %s (%v)", verb, v, err)
				}
			}
			if _, err := tree.List(use(t, tree).ctx, ListRequest{Path: pathOf(t, "app")}); verdict(err) != "outside_grant" {
				t.Errorf("list of the root: %v", err)
			}
			if got := tree.Moved(); s.name != "replaced by a link to itself" && !cmp.Equal(got, []string{"app"}) {
				t.Errorf("moved: %v", got)
			}
		})
	}
}

func TestCase24NestedRoots(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{"a.txt": "a", "docs/b.txt": "b", "docs/deep/c.txt": "c", "docs/private/d.txt": "d"})
	tree := open(t,
		RootSpec{Name: "app", Dir: dir, Rights: all, Exclude: []string{"docs/private"}},
		RootSpec{Name: "docs", Dir: filepath.Join(dir, "docs"), Rights: workspace.Read},
		RootSpec{Name: "deep", Dir: filepath.Join(dir, "docs/deep"), Rights: all, Exclude: []string{"x.txt"}})
	rights := map[string]workspace.Right{"app/a.txt": all, "app/docs": workspace.Read, "app/docs/b.txt": workspace.Read,
		"app/Docs/b.txt": workspace.Read, "app/docs/deep/c.txt": workspace.Read, "docs/b.txt": workspace.Read, "docs/deep/c.txt": workspace.Read,
		"deep/c.txt": all, "app/docsx": all, "app/docs2/b": all}
	for p, want := range rights {
		if got, refusal := tree.Right(pathOf(t, p)); got != want || refusal != nil {
			t.Errorf("right of %s: %v %v, want %v", p, got, refusal, want)
		}
	}
	ctx := use(t, tree).ctx
	for p, want := range map[string]string{"app/docs/n.txt": "no_right", "docs/n.txt": "no_right", "deep/n.txt": "ok", "app/n.txt": "ok",
		"app/docs/deep/x.txt": "no_right", "deep/x.txt": "outside_grant"} {
		if _, err := tree.Write(ctx, WriteRequest{Path: pathOf(t, p), Mode: "create", Content: []byte("x")}); verdict(err) != want {
			t.Errorf("create %s: %v, want %s", p, err, want)
		}
	}
	// What the outer root excludes stays excluded under the inner root's name.
	allRefused(t, open(t, RootSpec{Name: "app", Dir: dir, Rights: all, Exclude: []string{"docs/private"}},
		RootSpec{Name: "docs", Dir: filepath.Join(dir, "docs"), Rights: all}), "docs/private/d.txt", workspace.OutsideGrant)
	// A nested root that moved would have its weaker rights forgotten.
	must(t, os.Rename(filepath.Join(dir, "docs"), filepath.Join(dir, "docs2")))
	if _, err := tree.Write(ctx, WriteRequest{Path: pathOf(t, "app/docs2/n.txt"), Mode: "create", Content: []byte("x")}); verdict(err) != "outside_grant" {
		t.Errorf("write into the moved root: %v", err)
	}
}

func TestCase25And26OpenTreeRefuses(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{"a/x": "", "file": "", ".ssh/id": "", ".git/HEAD": "", "my_keys/p/x": "", "home/.weft/db": "", "e/.aws/p/x": ""})
	sub := func(s string) string { return filepath.Join(dir, s) }
	spec := func(name, d string) RootSpec { return RootSpec{Name: name, Dir: sub(d), Rights: workspace.Read} }
	tests := []struct {
		name  string
		specs []RootSpec
		rules Rules
		ok    bool
	}{
		{"good", []RootSpec{spec("a", "a")}, DefaultRules(), true},
		{"project below a name with a star rule", []RootSpec{spec("a", "my_keys/p")}, DefaultRules(), true},
		{"no root", nil, DefaultRules(), false},
		{"no rules", []RootSpec{spec("a", "a")}, Rules{}, false},
		{"no rights", []RootSpec{{Name: "a", Dir: sub("a")}}, DefaultRules(), false},
		{"write without read", []RootSpec{{Name: "a", Dir: sub("a"), Rights: workspace.Write}}, DefaultRules(), false},
		{"missing", []RootSpec{spec("a", "missing")}, DefaultRules(), false},
		{"a file", []RootSpec{spec("a", "file")}, DefaultRules(), false},
		{"bad name", []RootSpec{spec("a/b", "a")}, DefaultRules(), false},
		{"dots", []RootSpec{spec("..", "a")}, DefaultRules(), false},
		{"empty name", []RootSpec{spec("", "a")}, DefaultRules(), false},
		{"same name", []RootSpec{spec("a", "a"), spec("a", "home")}, DefaultRules(), false},
		{"same directory", []RootSpec{spec("a", "a"), spec("b", "a/../a")}, DefaultRules(), false},
		{"secret itself", []RootSpec{spec("a", ".ssh")}, DefaultRules(), false},
		{"secret by star", []RootSpec{spec("a", "my_keys")}, DefaultRules(), false},
		{"in a secret", []RootSpec{spec("a", "e/.aws/p")}, DefaultRules(), false},
		{"git's own", []RootSpec{spec("a", ".git")}, DefaultRules(), false},
		{"holds our home", []RootSpec{spec("a", "home")}, DefaultRules().Reserve(sub("home/state")), false},
		{"lies in our home", []RootSpec{spec("a", "home")}, DefaultRules().Reserve(dir), false},
		{"bad exclude", []RootSpec{{Name: "a", Dir: sub("a"), Rights: workspace.Read, Exclude: []string{"../x"}}}, DefaultRules(), false},
		{"bad include", []RootSpec{{Name: "a", Dir: sub("a"), Rights: workspace.Read, Include: []string{"[x"}}}, DefaultRules(), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree, err := OpenTree(tt.specs, tt.rules)
			if (err == nil) != tt.ok {
				t.Fatalf("error %v, want ok %v", err, tt.ok)
			}
			if err == nil {
				must(t, tree.Close())
			}
		})
	}
}

// TestCase27ErrorsSayNothing: for a denied name and for what the include globs
// leave out, an answer is byte for byte the same whether or not it exists; and
// no answer holds a host path.
func TestCase27ErrorsSayNothing(t *testing.T) {
	dir := t.TempDir()
	names := []string{".env", ".ssh/id_rsa", "deploy_key", "credentials/a", "src/.npmrc", "other/x.txt", "other", "secret.txt", "secret.txt/deeper", "secret.txt/a.go", "lib/x.txt"}
	spec := RootSpec{Name: "app", Dir: dir, Rights: all, Include: []string{"src/**", "**/*.go"}}
	put(t, dir, map[string]string{"src/main.go": "package main"})
	answers := func() map[string]string {
		tree := open(t, spec)
		out := map[string]string{}
		for _, n := range names {
			for verb, err := range use(t, tree).each("app/" + n) {
				out[verb+" "+n] = fmt.Sprint(err)
			}
		}
		return out
	}
	missing := answers()
	put(t, dir, map[string]string{".env": "K=topsecretvalue", ".ssh/id_rsa": "k", "deploy_key": "k", "credentials/a": "k", "src/.npmrc": "k", "other/x.txt": "o", "secret.txt": "s", "lib/x.txt": "x"})
	there := answers()
	for k, v := range missing {
		// A directory is shown if a granted file could be in it.
		if strings.HasSuffix(k, " other") && (strings.HasPrefix(k, "list") || strings.HasPrefix(k, "glob") || strings.HasPrefix(k, "grep") || strings.HasPrefix(k, "stat")) {
			continue
		}
		if there[k] != v {
			t.Errorf("%s:\n missing: %s\n exists:  %s", k, v, there[k])
		}
		if strings.Contains(v, dir) || strings.Contains(there[k], dir) || strings.Contains(there[k], os.TempDir()) {
			t.Errorf("%s names a host path: %s", k, there[k])
		}
	}
}
