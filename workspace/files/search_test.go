package files

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var project = map[string]string{
	".gitignore":              "node_modules/\n*.log\n!keep.log\n/build\n",
	".git/HEAD":               "ref\n",
	".git/info/exclude":       "local.txt\n",
	"local.txt":               "needle",
	"README.md":               "# needle\n",
	"a.log":                   "needle",
	"keep.log":                "needle\n",
	"build/out.txt":           "needle",
	"src/build/out.txt":       "needle\n",
	"src/main.go":             "package main\n\nfunc main() {\n\tprintln(\"needle\")\n}\n",
	"src/.gitignore":          "gen_*.go\r\n",
	"src/gen_a.go":            "needle",
	"src/util/util.go":        "package util\n",
	"src/util/crlf.go":        "one\r\nneedle\r\nthree\r\n",
	"node_modules/p/index.js": "needle",
	"bin.dat":                 "needle\x00",
	".env":                    "needle",
	"link":                    "-> README.md",
}

func TestList(t *testing.T) {
	tree, dir := granted(t, project)
	must(t, os.WriteFile(filepath.Join(dir, "bad\xff"), nil, 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "ctrl\n"), nil, 0o644))
	r, err := tree.List(context.Background(), ListRequest{Path: pathOf(t, "app")})
	must(t, err)
	want := "app entries=6 omitted=3 ignored=5 truncated=no\nfile 37 .gitignore\nfile 9 README.md\nfile 7 bin.dat\nfile 7 keep.log\nsymlink - link\ndir - src\n"
	if got := string(r.Text()); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	r, err = tree.List(context.Background(), ListRequest{Path: pathOf(t, "app/src"), Depth: 2})
	must(t, err)
	want = "app/src entries=7 omitted=0 ignored=1 truncated=no\nfile 10 .gitignore\ndir - build\nfile 7 build/out.txt\nfile 49 main.go\ndir - util\nfile 20 util/crlf.go\nfile 13 util/util.go\n"
	if got := string(r.Text()); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	// Pages join to the whole, whatever their length.
	whole, err := tree.List(context.Background(), ListRequest{Path: pathOf(t, "app"), Depth: 5, IncludeIgnored: true})
	must(t, err)
	for limit := 1; limit < 8; limit++ {
		var got []Entry
		q := ListRequest{Path: pathOf(t, "app"), Depth: 5, IncludeIgnored: true, Limit: limit}
		for {
			p, err := tree.List(context.Background(), q)
			must(t, err)
			got = append(got, p.Entries...)
			if !p.Truncated {
				break
			}
			q.Cursor = p.Next
		}
		if diff := cmp.Diff(whole.Entries, got); diff != "" {
			t.Errorf("limit %d: %s", limit, diff)
		}
	}
	for _, q := range []ListRequest{{Depth: 6}, {Limit: 1001}, {Depth: -1}, {Cursor: "../x"}} {
		q.Path = pathOf(t, "app")
		if _, err := tree.List(context.Background(), q); verdict(err) != "bad_arguments" {
			t.Errorf("%+v: %v", q, err)
		}
	}
	if _, err := tree.List(context.Background(), ListRequest{Path: pathOf(t, "app/README.md")}); verdict(err) != "not_directory" {
		t.Errorf("list of a file: %v", err)
	}
}

func TestGlob(t *testing.T) {
	tree, dir := granted(t, project)
	old := time.Unix(1e9, 0)
	must(t, os.Chtimes(filepath.Join(dir, "src/main.go"), old, old))
	for _, tt := range []struct {
		pattern, path, sort string
		all                 bool
		want                string
	}{
		{"**/*.go", "app", "", false, "app/src/main.go app/src/util/crlf.go app/src/util/util.go"},
		{"src/*.go", "app", "path", true, "app/src/gen_a.go app/src/main.go"},
		{"*.md", "app", "", false, "app/README.md"},
		{"**/out.txt", "app", "", false, "app/src/build/out.txt"},
		{"**/{main,util}.go", "app/src", "", false, "app/src/main.go app/src/util/util.go"},
		{"util/*.go", "app/src", "", false, "app/src/util/crlf.go app/src/util/util.go"},
		{"src/main.go", "app", "", false, "app/src/main.go"},
		{"none/**", "app", "", false, ""},
		{".env*", "app", "", true, ""},
		{"**/.env", "app", "", true, ""},
		{"link", "app", "", false, ""},
	} {
		r, err := tree.Glob(context.Background(), GlobRequest{Pattern: tt.pattern, Path: pathOf(t, tt.path), Sort: tt.sort, IncludeIgnored: tt.all})
		if got := strings.Join(r.Paths, " "); err != nil || got != tt.want {
			t.Errorf("%s in %s: %q %v, want %q", tt.pattern, tt.path, got, err, tt.want)
		}
	}
	r, err := tree.Glob(context.Background(), GlobRequest{Pattern: "src/**/*.go", Path: pathOf(t, "app"), Sort: "mtime", Limit: 3})
	if err != nil || len(r.Paths) != 3 || r.Paths[2] != "app/src/main.go" {
		t.Errorf("by mtime: %v %v", r.Paths, err)
	}
	for pattern, want := range map[string]string{"": "bad_arguments", "/x": "bad_arguments", "../x": "bad_arguments", "[": "bad_arguments", ".ssh/*": "secret_path", strings.Repeat("a", 1025): "bad_arguments",
		strings.Repeat("{a,b}", 7): "bad_arguments", strings.Repeat("**/", 9) + "x": "bad_arguments"} {
		if _, err := tree.Glob(context.Background(), GlobRequest{Pattern: pattern, Path: pathOf(t, "app")}); verdict(err) != want {
			t.Errorf("%.30q: %v, want %s", pattern, err, want)
		}
	}
	r, err = tree.Glob(context.Background(), GlobRequest{Pattern: "**", Path: pathOf(t, "app"), Limit: 2})
	if err != nil || !r.Truncated || len(r.Paths) != 2 {
		t.Errorf("limit: %+v %v", r, err)
	}
}

func TestGrep(t *testing.T) {
	tree, _ := granted(t, project)
	for _, tt := range []struct {
		name string
		q    GrepRequest
		want string
	}{
		{"content", GrepRequest{Pattern: "needle"}, "app/README.md:1:# needle\napp/keep.log:1:needle\napp/src/build/out.txt:1:needle\napp/src/main.go:4:\tprintln(\"needle\")\napp/src/util/crlf.go:2:needle\n"},
		{"files", GrepRequest{Pattern: "needle", Mode: "files", Glob: "*.go"}, "app/src/main.go\napp/src/util/crlf.go\n"},
		{"count", GrepRequest{Pattern: "e", Mode: "count", Glob: "src/**"}, "app/src/.gitignore:1\napp/src/build/out.txt:1\napp/src/main.go:2\napp/src/util/crlf.go:3\napp/src/util/util.go:1\n"},
		{"context", GrepRequest{Pattern: "func", Path: pathOf(t, "app/src/main.go"), Context: 1}, "app/src/main.go-2-\napp/src/main.go:3:func main() {\napp/src/main.go-4-\tprintln(\"needle\")\n"},
		{"context that meets", GrepRequest{Pattern: "package|println", Path: pathOf(t, "app/src/main.go"), Context: 1},
			"app/src/main.go:1:package main\napp/src/main.go-2-\napp/src/main.go-3-func main() {\napp/src/main.go:4:\tprintln(\"needle\")\napp/src/main.go-5-}\n"},
		{"context with a gap", GrepRequest{Pattern: "^package|^}", Path: pathOf(t, "app/src/main.go"), Context: 1},
			"app/src/main.go:1:package main\napp/src/main.go-2-\n--\napp/src/main.go-4-\tprintln(\"needle\")\napp/src/main.go:5:}\n"},
		{"case", GrepRequest{Pattern: "NEEDLE$", IgnoreCase: true, Glob: "*.md"}, "app/README.md:1:# needle\n"},
		{"anchors and crlf", GrepRequest{Pattern: "^needle$", Glob: "**/*.go"}, "app/src/util/crlf.go:2:needle\n"},
		{"text anchors", GrepRequest{Pattern: `\Athree\z`, Glob: "**/*.go"}, "app/src/util/crlf.go:3:three\n"},
		{"no match over lines", GrepRequest{Pattern: `one\sneedle`, Glob: "**/*.go"}, ""},
		{"multiline", GrepRequest{Pattern: `one\sneedle`, Glob: "**/*.go", Multiline: true}, "app/src/util/crlf.go:1:one\napp/src/util/crlf.go:2:needle\n"},
		{"class that takes newlines", GrepRequest{Pattern: `[^x]+`, Path: pathOf(t, "app/src/util/crlf.go")}, "app/src/util/crlf.go:1:one\napp/src/util/crlf.go:2:needle\napp/src/util/crlf.go:3:three\n"},
		{"empty lines", GrepRequest{Pattern: `^$`, Glob: "*.go"}, "app/src/main.go:2:\n"},
		{"ignored too", GrepRequest{Pattern: "needle", IncludeIgnored: true, Glob: "**/*.{log,js}"}, "app/a.log:1:needle\napp/keep.log:1:needle\napp/node_modules/p/index.js:1:needle\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.q.Path.Root() == "" {
				tt.q.Path = pathOf(t, "app")
			}
			r, err := tree.Grep(context.Background(), tt.q)
			if err != nil || string(r.Body) != tt.want {
				t.Errorf("%v\ngot:\n%s\nwant:\n%s", err, r.Body, tt.want)
			}
		})
	}
	r, err := tree.Grep(context.Background(), GrepRequest{Pattern: "needle", Path: pathOf(t, "app")})
	if want := "app hits=5 files=5 searched=8 skipped=2 omitted=1 ignored=6 truncated=no"; err != nil || r.Header != want {
		t.Errorf("header %s, want %s", r.Header, want)
	}
	r, err = tree.Grep(context.Background(), GrepRequest{Pattern: "needle", Path: pathOf(t, "app"), Limit: 2})
	if err != nil || r.Hits != 2 || !r.Truncated {
		t.Errorf("limit: %+v %v", r, err)
	}
	for _, q := range []GrepRequest{{}, {Pattern: "("}, {Pattern: `(?=x)`}, {Pattern: "x", Context: 11}, {Pattern: "x", Limit: 1001}, {Pattern: "x", Mode: "lines"}, {Pattern: "x", Glob: "["},
		{Pattern: strings.Repeat("x", 1025)}, {Pattern: "((((x{10}){10}){10}){10}"}, {Pattern: "(x{100}y{100}){100}"}} {
		q.Path = pathOf(t, "app")
		if _, err := tree.Grep(context.Background(), q); verdict(err) != "bad_arguments" {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

func TestGrepShowsNoInvalidUTF8(t *testing.T) {
	tree, _ := granted(t, map[string]string{"latin.txt": "caf\xe9 au lait\n", "wide.txt": strings.Repeat("é", 5000) + " needle\n"})
	r, err := tree.Grep(context.Background(), GrepRequest{Pattern: "lait|needle", Path: pathOf(t, "app")})
	if want := "app/latin.txt:1:caf\\xe9 au lait\napp/wide.txt:1:" + strings.Repeat("é", 1000) + "[line cut after 2000 of 10007 bytes]\n"; err != nil || string(r.Body) != want {
		t.Errorf("%q %v", r.Body, err)
	}
}

// TestCase82SlowPatterns: no pattern keeps a search for longer than its time.
func TestCase82SlowPatterns(t *testing.T) {
	tree, _ := granted(t, map[string]string{"one.txt": strings.Repeat("a", 9<<20), "lines.txt": strings.Repeat(strings.Repeat("a", 99)+"\n", 90_000)})
	for i, pattern := range []string{`(a+)+$b`, `(a*)*(a*)*(a*)*b`, `(?:a?){1000}b`, `(?:[ab]{1,60}c?){16}d`, `(.*)(.*)(.*)(.*)(.*)[^a]$`} {
		for _, multi := range []bool{false, true} {
			ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
			start := time.Now()
			_, err := tree.Grep(ctx, GrepRequest{Pattern: pattern, Path: pathOf(t, "app"), Multiline: multi})
			took := time.Since(start)
			cancel()
			if v := verdict(err); v != "ok" && v != "timeout" {
				t.Errorf("%s: %v", pattern, err)
			}
			if took > 6*time.Second { // the machine may be busy; 300 ms is meant
				t.Errorf("pattern %d took %v", i, took)
			}
		}
	}
}

func TestIncludeShowsOnlyTheWay(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, project)
	tree := open(t, RootSpec{Name: "app", Dir: dir, Rights: all, Include: []string{"src/util/**", "*.md"}})
	r, err := tree.List(context.Background(), ListRequest{Path: pathOf(t, "app"), Depth: 3})
	must(t, err)
	var names []string
	for _, e := range r.Entries {
		names = append(names, e.Path)
	}
	// *.md may be at any depth, so every directory leads to one.
	if got, want := fmt.Sprint(names), "[README.md src src/build src/util src/util/crlf.go src/util/util.go]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if _, err := use(t, tree).read("app/src/main.go"); verdict(err) != "outside_grant" {
		t.Errorf("read outside the include globs: %v", err)
	}
}
