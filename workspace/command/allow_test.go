package command

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftmesh/weft/workspace"
)

func all() []Allowed {
	var out []Allowed
	for _, p := range Profiles() {
		out = append(out, Allowed{Profile: p.Name})
	}
	return out
}

func TestMatchAllows(t *testing.T) {
	t.Parallel()
	for _, argv := range []string{
		"go test", "go test ./...", "go test -run TestX -v -count=1 ./a/b", "go test --run=^Test/sub$ .", "go test -race -timeout 30s example.com/m/p",
		"go build ./...", "go build -o /dev/null .", "go vet ./...", "go test -short=true -bench . -benchtime 100x ./...",
		"npm test", "npm run test", "npm test -- --grep widget", "pytest -q -k name tests/test_a.py", "python3 -m pytest -x --maxfail=2",
		"cargo test", "cargo test --release -p core name -- --nocapture --test-threads=1", "make", "make -j 4 check", "make -k test lint",
		"git status", "git status -sb --porcelain", "git diff", "git diff --stat HEAD~2 -- src", "git diff main...feature -U3", "git log --oneline -n 5", "git log -5 -p -- a.go",
		"git show HEAD", "git show HEAD~1:src/a.go", "git ls-files -m", "git blame -L 1,20 -- a.go", "git log --format=%h --since=yesterday --author=Ann",
		"git add -A", "git add a.go b/c.go", "git commit -m message", "git commit -m msg -a --allow-empty", "git restore --staged a.go", "git show v1.2.3 --stat",
	} {
		if _, refusal := Match(all(), strings.Fields(argv)); refusal != nil {
			t.Errorf("%s: %v", argv, refusal)
		}
	}
}

// Cases 50 and 51: what isn't in a profile's list is refused.
func TestCase50And51Refused(t *testing.T) {
	t.Parallel()
	for _, argv := range [][]string{
		{"git", "-c", "core.fsmonitor=x", "status"}, {"git", "--exec-path=/tmp", "status"}, {"git", "--git-dir=x", "status"},
		{"git", "-C", "..", "status"}, {"git", "-p", "log"}, {"git", "--paginate", "log"}, {"git", "log", "--output=x"}, {"git", "diff", "--output", "x"},
		{"git", "diff", "--no-index", "/etc/passwd", "/dev/null"}, {"git", "diff", "/etc/passwd"}, {"git", "diff", "--ext-diff"}, {"git", "show", "--textconv"},
		{"git", "grep", "-O", "x"}, {"git", "grep", "x"}, {"git", "clone", "ext::sh -c x"}, {"git", "fetch"}, {"git", "push"}, {"git", "checkout", "-f"},
		{"git", "config", "-l"}, {"git", "log", "--show-signature"}, {"git", "log", "--format=%G?"}, {"git", "log", "--pretty=tformat:%GG"}, {"git", "log", "--format=x%+GK"},
		{"git", "log", "-S", "secret"}, {"git", "log", "-G", "secret"}, {"git", "log", "--", "../other"}, {"git", "log", "--", "/etc"}, {"git", "log", "--", ":(top)x"},
		{"git", "show", "HEAD:../../x"}, {"git", "show", ":0:x"}, {"git", "show", "HEAD^{tree}"}, {"git", "show", "HEAD:"}, {"git", "show", ":/text"},
		{"git", "ls-files", "-s"}, {"git", "ls-files", "--stage"}, {"git", "status", "--porcelain=v2"}, {"git", "blame", "--contents", "/etc/passwd", "--", "x"},
		{"git", "blame", "-S", "file", "--", "x"}, {"git", "blame", "x", "y"}, {"git", "diff", "--word-diff-regex=x"}, {"git", "diff", "-O", "order"},
		{"git", "commit"}, {"git", "commit", "-F", "/etc/passwd"}, {"git", "commit", "--amend", "-m", "x"}, {"git", "commit", "-m", "x", "--template=f"}, {"git", "commit", "-S", "-m", "x"},
		{"git", "add", "--pathspec-from-file=x"}, {"git", "add", "-i"}, {"git", "add", "-p"}, {"git", "add"}, {"git", "restore", "x"}, {"git", "restore", "--source=HEAD", "x"},
		{"git", "--help"}, {"git"}, {"git", "status", "-c", "x"}, {"git", "upload-pack", "."}, {"git", "diff", "a..b..c:x"},
		{"go", "test", "-exec", "sh"}, {"go", "test", "--exec=sh"}, {"go", "test", "-toolexec=sh", "./..."}, {"go", "test", "-o", "x"}, {"go", "test", "-outputdir", "/"},
		{"go", "test", "-coverprofile=c.out"}, {"go", "test", "-c"}, {"go", "test", "-overlay", "o.json"}, {"go", "test", "-modfile=x"}, {"go", "test", "-C", "/"},
		{"go", "test", "-ldflags=-X"}, {"go", "test", "../x"}, {"go", "test", "/etc"}, {"go", "vet", "-vettool=./x"}, {"go", "build", "-o", "/tmp/x"}, {"go", "build", "-toolexec", "x"},
		{"go", "run", "."}, {"go", "generate"}, {"go", "env", "-w", "X=y"}, {"go", "test", "-mod=mod"}, {"go", "test", "--", "x"},
		{"npm", "install"}, {"npm", "exec", "x"}, {"npm", "test", "--prefix", "/"}, {"npm", "test", "--script-shell=/bin/x"}, {"npm", "run", "build"}, {"npx", "x"},
		{"pytest", "-p", "plugin"}, {"pytest", "-c", "f"}, {"pytest", "-o", "x=y"}, {"pytest", "--rootdir=/"}, {"pytest", "../x"}, {"python3", "-c", "x"}, {"pytest", "--basetemp=x"},
		{"cargo", "run"}, {"cargo", "test", "--config", "x"}, {"cargo", "+nightly", "test"}, {"cargo", "test", "--target-dir", "/"}, {"cargo", "test", "--manifest-path", "/x"},
		{"make", "-f", "x"}, {"make", "-C", "/"}, {"make", "SHELL=/bin/sh"}, {"make", "CC=x", "all"}, {"make", "--eval=x"}, {"make", "-I", "x"}, {"make", "-E", "x"}, {"make", "--", "SHELL=x"},
		{"find", ".", "-exec", "sh"}, {"rg", "--pre", "x"}, {"sort", "-o", "x"}, {"sed", "-i", "x"}, {"awk", "BEGIN{system(\"x\")}"}, {"tar", "-I", "x"},
		{"xargs", "sh"}, {"env", "git", "status"}, {"sh", "-c", "git status"}, {"bash"}, {"/usr/bin/git", "status"}, {"./git", "status"}, {"GIT_DIR=x", "git", "status"},
		{"git status"}, {"git status; rm -rf ."}, {"busybox", "sh"}, {"python3.11", "-m", "pytest"}, {"Git", "status"},
	} {
		p, refusal := Match(all(), argv)
		if refusal == nil {
			t.Errorf("%q allowed as %q %q", argv, p.Profile, p.args)
			continue
		}
		if refusal.Code != workspace.CommandNotGranted {
			t.Errorf("%q: %v", argv, refusal)
		}
		if refusal.Hint == "" {
			t.Errorf("%q: no hint", argv)
		}
	}
}

func TestMatchBadArguments(t *testing.T) {
	t.Parallel()
	for name, argv := range map[string][]string{
		"empty": {}, "empty word": {""}, "nul": {"go", "test", "a\x00b"}, "not utf8": {"go", "test", "\xff"},
		"too many": strings.Fields("go test " + strings.Repeat("./x ", maxArgs)), "long": {"go", "test", strings.Repeat("x", maxArg+1)},
		"total": strings.Fields("go test " + strings.Repeat(strings.Repeat("x", 4000)+" ", 20)),
	} {
		if _, refusal := Match(all(), argv); refusal == nil || refusal.Code != workspace.BadArguments {
			t.Errorf("%s: %v", name, refusal)
		}
	}
}

// Case 26: nothing granted means nothing allowed.
func TestCase26NothingGranted(t *testing.T) {
	t.Parallel()
	_, refusal := Match(nil, []string{"git", "status"})
	if refusal == nil || !strings.Contains(refusal.Hint, "no command is granted") {
		t.Errorf("got %v", refusal)
	}
	_, refusal = Match([]Allowed{{Profile: "go-test"}}, []string{"ls"})
	if refusal == nil || !strings.Contains(refusal.Hint, "go-test (go test") {
		t.Errorf("the hint doesn't list what is granted: %v", refusal)
	}
	if _, refusal = Match([]Allowed{{}}, []string{""}); refusal == nil {
		t.Error("the empty entry allows something")
	}
}

func TestExactArgv(t *testing.T) {
	t.Parallel()
	a, err := ParseAllowed(`./scripts/test.sh --name "two words" 'a$b'`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"./scripts/test.sh", "--name", "two words", "a$b"}, a.Argv); diff != "" {
		t.Fatal(diff)
	}
	if _, refusal := Match([]Allowed{a}, a.Argv); refusal != nil {
		t.Error(refusal)
	}
	for _, argv := range [][]string{a.Argv[:3], append(a.Argv[:4:4], "x"), {"./scripts/test.sh"}, {"./scripts/test.sh", "--name", "two words", "a$B"}} {
		if _, refusal := Match([]Allowed{a}, argv); refusal == nil {
			t.Errorf("%q matched", argv)
		}
	}
}

func TestParseAllowedErrors(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"gotest": "no profile", "": "empty", "a | b": "shell syntax", "rm -rf *": "shell syntax", "a && b": "shell syntax", "x > y": "shell syntax",
		`a "$HOME"`: "expanded", "a 'b": "not closed", `a b\`: "backslash", "a $(b)": "shell syntax", "a `b`": "shell syntax", "ls ~": "shell syntax",
		strings.Repeat("x ", maxArgs+1): "arguments", "a\nb": "shell syntax",
	} {
		if _, err := ParseAllowed(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", s, err, want)
		}
	}
}

func FuzzParseAllowed(f *testing.F) {
	for _, s := range []string{"go-test", "make x", `a "b c" 'd'`, `'one'`, `a\ b c`, "a | b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseAllowed(s)
		if err != nil {
			return
		}
		again, err := ParseAllowed(a.String())
		if err != nil {
			t.Fatalf("%q gives %q, which is refused: %v", s, a.String(), err)
		}
		if diff := cmp.Diff(a, again); diff != "" {
			t.Fatalf("%q: %s", s, diff)
		}
	})
}

func FuzzMatch(f *testing.F) {
	for _, s := range []string{"git\x01log\x01-p", "go\x01test\x01-run\x01x", "git\x01show\x01HEAD:a", "make\x01-j\x014"} {
		f.Add(s)
	}
	allowed := all()
	f.Fuzz(func(t *testing.T, s string) {
		argv := strings.Split(s, "\x01")
		p, refusal := Match(allowed, argv)
		if refusal != nil {
			return
		}
		// No allowed word may reach a tool as one of its dangerous options.
		for _, w := range p.args {
			for _, bad := range []string{"--output", "--ext-diff", "--textconv", "-exec", "-toolexec", "-vettool", "--git-dir", "--exec-path", "--upload-pack", "--config", "--eval"} {
				if w == bad || strings.HasPrefix(w, bad+"=") {
					t.Fatalf("%q became %q", argv, p.args)
				}
			}
		}
		for _, n := range p.named("") {
			if strings.HasPrefix(n, "/") || strings.HasPrefix(n, "..") {
				t.Fatalf("%q names %q", argv, n)
			}
		}
	})
}

func TestProfilesAreComplete(t *testing.T) {
	t.Parallel()
	want := []string{"go-test", "go-build", "go-vet", "npm-test", "pytest", "cargo-test", "make", "git-read", "git-commit"}
	var got []string
	for _, p := range Profiles() {
		got = append(got, p.Name)
		if p.Summary == "" || p.Usage == "" || p.Tool == "" || len(p.Neutralised) == 0 {
			t.Errorf("%s is not described", p.Name)
		}
		if p.RunsRepoCode == strings.HasPrefix(p.Name, "git-") {
			t.Errorf("%s: RunsRepoCode is %v", p.Name, p.RunsRepoCode)
		}
		if p.Effect().Has(workspace.Write) != (p.Name == "git-commit") {
			t.Errorf("%s: effect %v", p.Name, p.Effect())
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
