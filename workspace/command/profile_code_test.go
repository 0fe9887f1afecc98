package command

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// profileBox makes a box whose grant has one profile, or skips if its tool is
// missing here.
func profileBox(t *testing.T, profile string, files map[string]string, options ...func(*Config)) *box {
	t.Helper()
	options = append([]func(*Config){func(c *Config) { c.Allowed = []Allowed{{Profile: profile}} }}, options...)
	b := newBox(t, files, options...)
	p, _ := Lookup(profile)
	if got := b.Runner.tools[p.Tool]; got.err != nil {
		t.Skip(got.err)
	}
	return b
}

func (b *box) argv(words string) Result {
	b.t.Helper()
	return b.end(b.run(Request{Plan: b.plan(strings.Fields(words)...), Timeout: 10 * time.Minute}))
}

// end polls a job that yielded until it has ended.
func (b *box) end(res Result) Result {
	b.t.Helper()
	for res.State == Running {
		next, err := b.Output(context.Background(), res.Job, res.Next, maxYield)
		if err != nil {
			b.t.Fatal(err)
		}
		next.Output = append(res.Output, next.Output...)
		res = next
	}
	return res
}

var goModule = map[string]string{
	"go.mod":      "module example.com/m\n\ngo 1.24\n\nrequire github.com/google/go-cmp v0.7.0\n",
	"go.sum":      "github.com/google/go-cmp v0.7.0 h1:wk8382ETsv4JYUZwIsn6YpYiWiBsYLSJiTsyBybVuN8=\ngithub.com/google/go-cmp v0.7.0/go.mod h1:pXiqmnSA92OHEEa9HXL2W4E7lf9JzCmGVUdgjX3N/iU=\n",
	"m.go":        "package m\n\nfunc Add(a, b int) int { return a + b }\n",
	"cmd/main.go": "package main\n\nfunc main() {}\n",
	"m_test.go": `package m

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAdd(t *testing.T) {
	if d := cmp.Diff(3, Add(1, 2)); d != "" {
		t.Fatal(d)
	}
	if err := os.WriteFile(t.TempDir()+"/x", nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
`,
}

// The Go profiles work offline with a module from this machine's cache, in a
// writable and in a read-only root, and are fast the second time. One session
// for all, since the first build compiles the standard library.
func TestGoProfiles(t *testing.T) {
	ro := tempDir(t)
	put(t, ro, goModule)
	b := profileBox(t, "go-test", goModule, func(c *Config) {
		c.Roots = append(c.Roots, Mount{Name: "ro", HostDir: ro})
		c.Allowed = append(c.Allowed, Allowed{Profile: "go-build"}, Allowed{Profile: "go-vet"}, Allowed{Profile: "make"})
	})
	at := func(root, words string) Result {
		return b.end(b.run(Request{Plan: b.plan(strings.Fields(words)...), Root: root, Timeout: 10 * time.Minute}))
	}
	passes := func(res Result) bool {
		out := string(res.Output)
		return res.Exit == 0 && strings.Contains(out, "--- PASS: TestAdd") && strings.Contains(out, "ok  \texample.com/m") && !strings.Contains(out, b.dir) && !strings.Contains(out, ro)
	}
	cold := at("app", "go test -v ./...")
	if !passes(cold) || len(cold.Changed) != 0 {
		t.Fatalf("cold: %s changed=%q\n%s", cold.Header(), cold.Changed, cold.Output)
	}
	warm := at("app", "go test -v ./...")
	if !passes(warm) || !strings.Contains(string(warm.Output), "(cached)") || warm.Duration > cold.Duration {
		t.Errorf("warm: %s\n%s", warm.Header(), warm.Output)
	}
	again := at("app", "go test -v -count=1 ./...")
	if !passes(again) || strings.Contains(string(again.Output), "(cached)") {
		t.Errorf("uncached: %s\n%s", again.Header(), again.Output)
	}
	readOnly := at("ro", "go test -v ./...")
	if !passes(readOnly) {
		t.Errorf("read-only: %s\n%s", readOnly.Header(), readOnly.Output)
	}
	t.Logf("cold %s, warm %s, warm but run again %s, read-only root %s", cold.Duration.Round(time.Millisecond),
		warm.Duration.Round(time.Millisecond), again.Duration.Round(time.Millisecond), readOnly.Duration.Round(time.Millisecond))
	if _, err := os.Stat(filepath.Join(b.cfg.StateDir, "cache", "go-build")); err != nil {
		t.Errorf("no build cache in the state directory: %v", err)
	}

	// The toolchain is pinned outside every grant, with its hash.
	i := slices.IndexFunc(b.Pins(), func(p Pin) bool { return p.Tool == "go" })
	p := b.Pins()[i]
	if len(p.SHA256) != 64 || !filepath.IsAbs(p.Path) || within(p.Path, b.dir) || !strings.HasPrefix(p.Version, "go1.") || warm.Executable != p.SHA256 {
		t.Errorf("pin %+v, result names %q", p, warm.Executable)
	}

	for _, words := range []string{"go build ./...", "go vet ./..."} {
		if res := at("ro", words); res.Exit != 0 || len(res.Output) != 0 {
			t.Errorf("%s: %s\n%s", words, res.Header(), res.Output)
		}
	}

	// make finds the toolchain.
	b.put(map[string]string{"Makefile": "all: t\nt:\n\t@echo making; go test ./...\nenv:\n\t@echo $(shell echo expanded)\n"})
	if res := at("app", "make -s all"); res.Exit != 0 || !strings.Contains(string(res.Output), "ok  \texample.com/m") {
		t.Errorf("%s\n%s", res.Header(), res.Output)
	}

	// Failures say where, in virtual paths.
	b.put(map[string]string{"bad_test.go": "package m\n\nimport \"testing\"\n\nfunc TestBad(t *testing.T) { panic(\"x\") }\n"})
	if bad := at("app", "go test -run TestBad ."); bad.Exit != 1 || !strings.Contains(string(bad.Output), "app/bad_test.go:5") || strings.Contains(string(bad.Output), "/work/app") {
		t.Errorf("%s\n%s", bad.Header(), bad.Output)
	}
	b.put(map[string]string{"m.go": "package m\n\nfunc Add(a, b int) int { return a + }\n"})
	if res := at("app", "go build ./..."); res.Exit == 0 || !strings.Contains(string(res.Output), "m.go:3") {
		t.Errorf("%s\n%s", res.Header(), res.Output)
	}
}

func TestNpmTest(t *testing.T) {
	b := profileBox(t, "npm-test", map[string]string{
		"package.json": `{"name":"x","version":"1.0.0","scripts":{"test":"node t.js"}}`,
		"t.js": `const {spawnSync} = require("child_process"); const fs = require("fs");
const r = spawnSync(process.execPath, ["-e", "console.log('child')"]); process.stdout.write(r.stdout);
require("child_process").exec("echo from-shell", (e, out) => { console.log(out.trim(), process.argv.slice(2).join()); fs.writeFileSync("made", ""); });
`,
	})
	res := b.argv("npm test -- one two")
	if out := string(res.Output); res.Exit != 0 || !strings.Contains(out, "child") || !strings.Contains(out, "from-shell one,two") {
		t.Errorf("%s\n%s", res.Header(), res.Output)
	}
	if !slices.Equal(res.Changed, []string{"app/made"}) {
		t.Errorf("changed %q", res.Changed)
	}
}

func TestMake(t *testing.T) {
	b := profileBox(t, "make", map[string]string{"Makefile": "env:\n\t@echo $(shell echo expanded)\n"})
	if res := b.argv("make env"); res.Exit != 0 || string(res.Output) != "expanded\n" {
		t.Errorf("%s\n%s", res.Header(), res.Output)
	}
}

func TestPytest(t *testing.T) {
	b := profileBox(t, "pytest", map[string]string{"test_a.py": "def test_a():\n    assert 1 + 1 == 2\n"})
	res := b.argv("pytest -q")
	if strings.Contains(string(res.Output), "No module named pytest") {
		t.Skip("the interpreter has no pytest")
	}
	if res.Exit != 0 || !strings.Contains(string(res.Output), "1 passed") || len(res.Changed) != 0 {
		t.Errorf("%s %q\n%s", res.Header(), res.Changed, res.Output)
	}
}

func TestCargoTest(t *testing.T) {
	b := profileBox(t, "cargo-test", map[string]string{
		"Cargo.toml": "[package]\nname = \"x\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
		"src/lib.rs": "pub fn add(a: i32, b: i32) -> i32 { a + b }\n#[test]\nfn works() { assert_eq!(add(1, 2), 3); }\n",
	})
	res := b.argv("cargo test")
	if res.Exit != 0 || !strings.Contains(string(res.Output), "test works ... ok") {
		t.Errorf("%s\n%s", res.Header(), res.Output)
	}
	if slices.ContainsFunc(res.Changed, func(p string) bool { return strings.Contains(p, "target") }) {
		t.Errorf("build files in the root: %q", res.Changed)
	}
}

// BenchmarkTrue is the whole of a call: checks, scan, sandbox, end.
func BenchmarkTrue(b *testing.B) {
	box := newBox(b, map[string]string{"a": "x"}, func(c *Config) { c.Allowed = []Allowed{{Argv: []string{"true"}}} })
	plan := box.plan("true")
	for b.Loop() {
		if res := box.run(Request{Plan: plan}); res.Exit != 0 {
			b.Fatal(res.Header())
		}
	}
}

// BenchmarkBwrapTrue is bubblewrap alone with the same mounts.
func BenchmarkBwrapTrue(b *testing.B) {
	box := newBox(b, map[string]string{"a": "x"}, func(c *Config) { c.Allowed = []Allowed{{Argv: []string{"true"}}} })
	args, err := box.mounts(false).args()
	if err != nil {
		b.Fatal(err)
	}
	args = append(args, "--", "/usr/bin/true")
	for b.Loop() {
		if out, err := exec.Command(box.sandbox.path, args...).CombinedOutput(); err != nil {
			b.Fatalf("%v %s", err, out)
		}
	}
}
