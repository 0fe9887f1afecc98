package weft_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/weftmesh/weft"

// rule forbids imports. A package is in a set if its path, from the module's
// root, is an entry of the set or below one.
type rule struct {
	name string
	// from is where the rule holds; empty is everywhere.
	from []string
	// except are packages of from where it doesn't.
	except []string
	// forbid are the imports: a folder of ours, or a whole import path.
	forbid []string
	// allow are imports below forbid that are fine.
	allow []string
	// tests says that the rule holds for test files too.
	tests bool
	why   string
}

// rules is the direction of imports: cmd -> node -> {a2a, workspace,
// discovery} -> protocols -> store.
var rules = []rule{
	{
		name: "store is the floor", from: []string{"store"},
		forbid: []string{"cmd", "node", "a2a", "workspace", "discovery", "protocols", "simnet"},
		// How values are written is the one thing they share, and it imports nothing of ours.
		allow: []string{"protocols/strict"},
		why:   "whatever the store knows of its users, its users can't change without it",
	},
	{
		name: "protocols are below their users", from: []string{"protocols"},
		forbid: []string{"cmd", "node", "a2a", "workspace", "discovery", "simnet"},
		why:    "both sides of a protocol, and a verifier with neither, use the same package",
	},
	{
		name: "workspace stands alone", from: []string{"workspace"},
		forbid: []string{"cmd", "node", "a2a", "discovery", "simnet"},
		why:    "what joins the domains lives in node; the gate must be readable without them",
	},
	{
		name: "a2a stands alone", from: []string{"a2a"},
		forbid: []string{"cmd", "node", "workspace", "discovery", "simnet"},
		why:    "what joins the domains lives in node; the privacy filter must be readable without them",
	},
	{
		name: "discovery stands alone", from: []string{"discovery"},
		forbid: []string{"cmd", "node", "a2a", "workspace", "simnet"},
		why:    "finding a peer must not depend on what is done with it",
	},
	{
		name: "nothing imports cmd", except: []string{"cmd"},
		forbid: []string{"cmd"}, tests: true,
		why: "a command has no logic of its own, so there is nothing to import",
	},
	{
		name: "simnet is for tests", except: []string{"simnet"},
		forbid: []string{"simnet"},
		why:    "a simulated internet has no place in the product",
	},
	{
		name: "the workspace decides without a network", from: []string{"workspace/grant", "workspace/gate", "workspace/tool", "workspace/files", "workspace/redact", "workspace/receipt"},
		forbid: []string{"net", "net/http", "github.com/libp2p"},
		why:    "what decides over a call must not be able to ask anyone",
	},
	{
		name: "commands ask the node", from: []string{"cmd"},
		forbid: []string{"store", "github.com/libp2p", "github.com/dgraph-io"},
		why:    "the daemon holds the store and the host; a second user of either would need a second lock",
	},
	{
		name: "libp2p has one home", except: []string{"node/host", "discovery", "protocols", "simnet", "test"},
		forbid: []string{"github.com/libp2p"},
		why:    "a libp2p upgrade must be readable in a few packages; the rest dials by identity",
	},
	{
		name: "badger has one home", except: []string{"store"},
		forbid: []string{"github.com/dgraph-io"}, tests: true,
		why: "durability is promised by store's committer, not by the engine",
	},
	{
		name: "cobra has one home", except: []string{"cmd"},
		forbid: []string{"github.com/spf13"}, tests: true,
		why: "flags are not for libraries",
	},
	{
		name: "one JSON decoder for what others say",
		from: []string{"protocols", "workspace", "a2a", "discovery"},
		// The MCP SDK's types are encoding/json's; redact only writes JSON, to
		// know how a secret looks in it; command reads what our own toolchain
		// and child process wrote.
		except: []string{"workspace/provider", "workspace/redact", "workspace/command"},
		forbid: []string{"encoding/json", "encoding/gob", "encoding/xml"},
		why:    "encoding/json takes duplicate names, case variants and bad UTF-8; use protocols/strict",
	},
	{
		name:   "no unsafe shortcuts",
		forbid: []string{"math/rand", "math/rand/v2", "log", "unsafe", "github.com/pkg/errors"},
		except: []string{"test", "simnet", "workspace/command", "workspace/files", "node/host", "discovery"},
		why:    "math/rand is guessable, log is not log/slog, unsafe needs a platform's reason",
	},
}

// source is one parsed file.
type source struct {
	name string // slash-separated, from the root
	dir  string // "." for the root
	test bool
	file *ast.File
	text int // lines
}

var fset = token.NewFileSet()

// sources parses every Go file of the tree.
func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() && name != "." && (base == "testdata" || base == "node_modules" || base == "vendor" || base[0] == '.' || base[0] == '_') {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(base, ".go") {
			return nil
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		slash := filepath.ToSlash(name)
		out = append(out, source{name: slash, dir: path.Dir(slash), file: f,
			test: strings.HasSuffix(base, "_test.go"), text: fset.File(f.Pos()).LineCount()})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 20 {
		t.Fatalf("only %d Go files found: the test looks in the wrong place", len(out))
	}
	return out
}

// in reports whether p is one of the set's entries or below one.
func in(p string, set []string) bool {
	return slices.ContainsFunc(set, func(s string) bool { return p == s || strings.HasPrefix(p, s+"/") })
}

// breaks reports whether a file of dir may not import what.
func (r rule) breaks(dir string, test bool, what string) bool {
	if test && !r.tests || len(r.from) > 0 && !in(dir, r.from) || in(dir, r.except) {
		return false
	}
	ours, isOurs := strings.CutPrefix(what, module+"/")
	if isOurs {
		return in(ours, r.forbid) && !in(ours, r.allow)
	}
	// A folder of ours in the list isn't a standard package of that name.
	for _, f := range r.forbid {
		if f == what || strings.Contains(f, ".") && in(what, []string{f}) {
			return true
		}
	}
	return false
}

func TestImportDirection(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		for _, imp := range s.file.Imports {
			what, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range rules {
				if r.breaks(s.dir, s.test, what) {
					t.Errorf("%s imports %s\n\trule: %s\n\twhy: %s", s.name, what, r.name, r.why)
				}
			}
		}
	}
}

// The rules themselves, on imports that must and must not pass.
func TestRulesBite(t *testing.T) {
	t.Parallel()
	tests := []struct {
		dir  string
		test bool
		what string
		want string // a rule's name, or ""
	}{
		{"store", false, module + "/node", "store is the floor"},
		{"store", false, module + "/protocols/strict", ""},
		{"store", false, module + "/protocols/identity", "store is the floor"},
		{"protocols/session", false, module + "/workspace", "protocols are below their users"},
		{"protocols/session", false, "github.com/libp2p/go-libp2p/core/network", ""},
		{"workspace/gate", false, module + "/node/host", "workspace stands alone"},
		{"workspace/gate", false, "net", "the workspace decides without a network"},
		{"workspace/gate", false, "net/netip", ""},
		{"workspace/gate", false, module + "/workspace/grant", ""},
		{"node", false, "github.com/libp2p/go-libp2p", "libp2p has one home"},
		{"node/host", false, "github.com/libp2p/go-libp2p", ""},
		{"node/hosts", false, "github.com/libp2p/go-libp2p", "libp2p has one home"},
		{"cmd/weft", false, module + "/store", "commands ask the node"},
		{"node", true, module + "/cmd/weft", "nothing imports cmd"},
		{"node", true, module + "/simnet", ""},
		{"node", false, module + "/simnet", "simnet is for tests"},
		{"node", false, "github.com/spf13/cobra", "cobra has one home"},
		{"workspace/receipt", false, "encoding/json", "one JSON decoder for what others say"},
		{"a2a", false, "math/rand", "no unsafe shortcuts"},
	}
	for _, tt := range tests {
		var broken []string
		for _, r := range rules {
			if r.breaks(tt.dir, tt.test, tt.what) {
				broken = append(broken, r.name)
			}
		}
		if tt.want == "" && len(broken) > 0 || tt.want != "" && !slices.Contains(broken, tt.want) {
			t.Errorf("%s importing %s breaks %q, want %q", tt.dir, tt.what, broken, tt.want)
		}
	}
}

func TestPackageComments(t *testing.T) {
	t.Parallel()
	documented := map[string]bool{}
	for _, s := range sources(t) {
		if s.test || s.file.Name.Name == "main" && s.file.Doc == nil && documented[s.dir] {
			continue
		}
		has := s.file.Doc != nil && len(strings.Fields(s.file.Doc.Text())) >= 5
		documented[s.dir] = documented[s.dir] || has
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s has no package comment that says what it is for", dir)
		}
	}
}

// maxLines is the budget of a file; 120 is the aim.
const maxLines = 500

func TestFileBudget(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.text > maxLines {
			t.Errorf("%s has %d lines, the budget is %d: split it by role", s.name, s.text, maxLines)
		}
	}
}

func TestFolderNames(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		switch base := path.Base(s.dir); base {
		case "util", "utils", "common", "types", "helpers", "misc", "pkg", "internal":
			t.Errorf("%s: a folder is a noun that a user would recognise, not %q", s.dir, base)
		}
	}
}

// calls finds calls of pkg.name in a file, or go statements for "go".
func calls(f *ast.File, pkg, name string) (at []token.Pos) {
	ast.Inspect(f, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == name {
				if id, ok := sel.X.(*ast.Ident); pkg == "" || ok && id.Name == pkg {
					at = append(at, sel.Pos())
				}
			}
		}
		return true
	})
	return at
}

// A test that sleeps is slow when it passes and flaky when it fails.
func TestNoSleepInTests(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if !s.test {
			continue
		}
		for _, at := range calls(s.file, "time", "Sleep") {
			t.Errorf("%s sleeps: wait for a signal, poll a condition with a deadline, or use testing/synctest", fset.Position(at))
		}
	}
}

// Every goroutine has an owner that waits for it, and goleak checks that.
func TestGoroutinesAreChecked(t *testing.T) {
	t.Parallel()
	starts, checked := map[string]string{}, map[string]bool{}
	for _, s := range sources(t) {
		if s.test {
			for _, imp := range s.file.Imports {
				checked[s.dir] = checked[s.dir] || strings.Contains(imp.Path.Value, "go.uber.org/goleak")
			}
			continue
		}
		if s.file.Name.Name == "main" || in(s.dir, []string{"test"}) {
			continue // ends with its process, or with the test that uses it
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if st, ok := n.(*ast.GoStmt); ok {
				starts[s.dir] = fset.Position(st.Pos()).String()
			}
			return true
		})
		if at := calls(s.file, "", "Go"); len(at) > 0 {
			starts[s.dir] = fset.Position(at[0]).String()
		}
	}
	for dir, at := range starts {
		if !checked[dir] {
			t.Errorf("%s starts goroutines (%s): its TestMain must call goleak.VerifyTestMain", dir, at)
		}
	}
}
