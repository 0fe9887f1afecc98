package command

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weftmesh/weft/workspace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sandbox skips a test where there is no sandbox: the code under test refuses
// to run commands there, which TestCase63 checks everywhere.
func sandbox(t testing.TB) {
	t.Helper()
	if s := Probe(); !s.Available {
		t.Skipf("no sandbox: %s", s.Reason)
	}
}

// box is a runner over temporary folders.
type box struct {
	*Runner
	t     testing.TB
	dir   string // host directory of root "app"
	allow []Allowed
}

// newBox makes a writable root "app" with the files, whatever the options say
// besides. Scripts are run by exact grants of /bin/sh.
func newBox(t testing.TB, files map[string]string, options ...func(*Config)) *box {
	t.Helper()
	sandbox(t)
	dir := tempDir(t)
	put(t, dir, files)
	cfg := Config{Roots: []Mount{{Name: "app", HostDir: dir, Writable: true}}, StateDir: filepath.Join(tempDir(t), "state")}
	cfg.Allowed = []Allowed{{Argv: []string{"sh"}}}
	for _, o := range options {
		o(&cfg)
	}
	r, err := NewRunner(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return &box{r, t, dir, cfg.Allowed}
}

// tempDir is t.TempDir with symlinks resolved.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func put(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(content, "#!") {
			mode = 0o755
		}
		if err := os.WriteFile(p, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
}

// script plans sh -c as a requester could grant it exactly.
func script(text string) Plan {
	p := exactPlan([]string{"sh", "-c", text})
	return p
}

// sh runs a script in root app to its end.
func (b *box) sh(text string) Result {
	b.t.Helper()
	return b.run(Request{Plan: script(text), Root: "app"})
}

func (b *box) run(q Request) Result {
	b.t.Helper()
	if q.Root == "" {
		q.Root = "app"
	}
	if q.Yield == 0 {
		q.Yield = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	res, err := b.Run(ctx, q)
	if err != nil {
		b.t.Fatalf("%q: %v", q.Plan.Argv, err)
	}
	return res
}

// profile plans an argv through Match.
func (b *box) plan(argv ...string) Plan {
	b.t.Helper()
	p, refusal := Match(b.allow, argv)
	if refusal != nil {
		b.t.Fatalf("%q: %v", argv, refusal)
	}
	return p
}

// refused runs argv and returns the refusal it must get.
func (b *box) refused(code workspace.Code, argv ...string) *workspace.Refusal {
	b.t.Helper()
	p, refusal := Match(b.allow, argv)
	if refusal == nil {
		_, err := b.Run(context.Background(), Request{Plan: p, Root: "app"})
		if !errors.As(err, &refusal) {
			b.t.Fatalf("%q: got %v, want a refusal", argv, err)
		}
	}
	if refusal.Code != code {
		b.t.Fatalf("%q: got %v, want %s", argv, refusal, code)
	}
	if strings.Contains(refusal.Error(), b.dir) {
		b.t.Errorf("%q: the refusal shows a host path: %v", argv, refusal)
	}
	return refusal
}

// git runs the host's git to prepare a repository.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@x", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@x")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// until polls a condition with a deadline.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		<-tick.C
	}
}

// hunter is the known secret of the tests.
const hunter = "hunter2-Correct9"

// start runs a plan that must still be running at the yield.
func (b *box) start(q Request) Result {
	b.t.Helper()
	q.Yield = minYield
	res := b.run(q)
	if res.State != Running || res.Job == "" {
		b.t.Fatalf("got %s\n%s", res.Header(), res.Output)
	}
	return res
}
