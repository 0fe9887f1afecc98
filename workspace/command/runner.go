package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/weftmesh/weft/workspace"
)

// Runner runs the commands of one session. Its methods may be called at the
// same time. Close ends everything it started.
type Runner struct {
	cfg     Config
	sandbox Sandbox
	filter  []byte // seccomp program
	rules   []rule
	roots   []rootID // as Config.Roots
	tools   map[string]*tool
	helpers []Pin    // further tools for commands that call others
	hooks   []string // values of the owner's global git configuration that point into trees
	spawner *spawner
	work    sync.WaitGroup // goroutines of jobs

	mu       sync.Mutex // guards below
	jobs     map[string]*job
	order    []*job // oldest first
	closed   bool
	gitSeen  map[string]gitSeen // by root name
	gitCheck sync.Mutex         // one look at a configuration at a time
}

// rootID is a root's directory as it was when the session began.
type rootID struct {
	Mount
	info fs.FileInfo
}

// tool is a pin and what its program looked like when it was last hashed.
type tool struct {
	pin  Pin
	info fs.FileInfo
	err  error // why it can't be used
}

// NewRunner prepares the sandbox's fixtures and finds the tools. It fails on a
// bad configuration only: a missing sandbox or tool is a refusal of the
// command that needs it.
func NewRunner(cfg Config) (*Runner, error) {
	cfg.Limits.fill()
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if len(cfg.Roots) == 0 || cfg.StateDir == "" {
		return nil, errors.New("command runner: roots and a state directory are required")
	}
	r := &Runner{cfg: cfg, jobs: map[string]*job{}, gitSeen: map[string]gitSeen{}, tools: map[string]*tool{}}
	r.cfg.Roots = slices.Clone(cfg.Roots)
	if err := r.openRoots(); err != nil {
		return nil, err
	}
	if err := r.prepareState(); err != nil {
		return nil, err
	}
	r.rules = hostRules(r.cfg.Roots, r.cfg.StateDir)
	if err := r.prepareSandbox(); err != nil {
		return nil, err
	}
	if err := r.findTools(); err != nil {
		return nil, err
	}
	r.spawner = newSpawner()
	return r, nil
}

// Sandbox says what confines the commands of this runner.
func (r *Runner) Sandbox() Sandbox { return r.sandbox }

// Pins lists the tools as found, for the owner's record.
func (r *Runner) Pins() []Pin {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Pin
	for _, t := range r.tools {
		if t.err == nil && t.pin.SHA256 != "" {
			out = append(out, t.pin)
		}
	}
	slices.SortFunc(out, func(a, b Pin) int { return strings.Compare(a.Tool, b.Tool) })
	return out
}

func (r *Runner) openRoots() error {
	seen := map[string]bool{}
	for i := range r.cfg.Roots {
		m := &r.cfg.Roots[i]
		if m.Name == "" || strings.ContainsAny(m.Name, "/\x00") || m.Name == "." || m.Name == ".." || seen[m.Name] {
			return fmt.Errorf("command runner: bad or repeated root name %q", m.Name)
		}
		seen[m.Name] = true
		real, err := filepath.EvalSymlinks(m.HostDir)
		if err != nil {
			return fmt.Errorf("command runner: root %s: %w", m.Name, err)
		}
		info, err := os.Stat(real)
		if err != nil || !info.IsDir() || !filepath.IsAbs(real) {
			return fmt.Errorf("command runner: root %s is not an absolute path of a directory", m.Name)
		}
		m.HostDir = real
		r.roots = append(r.roots, rootID{*m, info})
	}
	return nil
}

// prepareState makes the directories and the files of /etc. Nothing in the
// state directory is reachable by a tool.
func (r *Runner) prepareState() error {
	for _, d := range []string{"", "sandbox", "jobs", "cache", "cache/cargo/registry", "home", "tmp"} {
		if err := os.MkdirAll(filepath.Join(r.cfg.StateDir, d), 0o700); err != nil {
			return fmt.Errorf("command runner: state: %w", err)
		}
	}
	real, err := filepath.EvalSymlinks(r.cfg.StateDir)
	if err != nil {
		return fmt.Errorf("command runner: state: %w", err)
	}
	r.cfg.StateDir = real
	for _, m := range r.cfg.Roots {
		if within(real, m.HostDir) || within(m.HostDir, real) {
			return fmt.Errorf("command runner: the state directory and root %s overlap", m.Name)
		}
	}
	// Logs of an earlier life belong to jobs that are gone.
	old, err := filepath.Glob(filepath.Join(real, "jobs", "*.log"))
	if err != nil {
		return fmt.Errorf("command runner: state: %w", err)
	}
	for _, f := range old {
		os.Remove(f)
	}
	files := []struct {
		name, text string
		mode       fs.FileMode
	}{
		{"passwd", "root:x:0:0:root:/root:/bin/false\nweft:x:1000:1000:weft:/tmp/home:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n", 0o444},
		{"group", "root:x:0:\nweft:x:1000:\nnogroup:x:65534:\n", 0o444},
		{"hosts", "127.0.0.1 localhost weft\n::1 localhost\n", 0o444},
		{"nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n", 0o444},
		{"masked", "", 0},
	}
	for _, f := range files {
		path := filepath.Join(real, "sandbox", f.name)
		os.Remove(path)
		if err := os.WriteFile(path, []byte(f.text), f.mode); err != nil {
			return fmt.Errorf("command runner: state: %w", err)
		}
		if err := os.Chmod(path, f.mode); err != nil {
			return fmt.Errorf("command runner: state: %w", err)
		}
	}
	return nil
}

func (r *Runner) findTools() error {
	ctx := context.Background()
	f, err := newFinder(hostDirs(r.cfg.Roots))
	if err != nil {
		return fmt.Errorf("command runner: %w", err)
	}
	calls := false
	for _, name := range toolsOf(r.cfg.Allowed) {
		t := &tool{}
		i := slices.IndexFunc(r.cfg.Pins, func(p Pin) bool { return p.Tool == name })
		if i >= 0 {
			t.pin = r.cfg.Pins[i]
			for _, b := range append([]Bind{{Host: t.pin.Path}, t.pin.Script}, t.pin.Mounts...) {
				if b.Host != "" && f.granted(b.Host) {
					t.err = fmt.Errorf("%s lies inside a granted folder", name)
				}
			}
		} else if t.pin, t.err = f.pin(ctx, name); t.err == nil {
			if t.pin.SHA256, t.err = hashFile(t.pin.Path); t.err == nil {
				t.info, t.err = os.Stat(t.pin.Path)
			}
		}
		r.tools[name] = t
	}
	for _, a := range r.cfg.Allowed {
		calls = calls || len(a.Argv) > 0 || a.Profile == "make" || a.Profile == "npm-test"
	}
	if calls {
		// make, npm and scripts call other tools. Those of this machine are
		// shown read-only where they can be found; none is required.
		r.helpers = f.helpers(ctx)
	}
	if git, err := f.look("git"); err == nil {
		if _, ok := r.tools["git"]; !ok {
			r.tools["git"] = &tool{pin: Pin{Tool: "git", Path: git, Inside: git}}
		}
		// The owner's own configuration may point hooks or attributes into
		// every tree; an error only says there is none.
		if list, err := f.ask(ctx, git, nil, "config", "--global", "--list", "-z"); err == nil {
			r.hooks = gitTargets(string(list))
		}
	}
	return nil
}

// verify refuses a tool that isn't what was pinned.
func (r *Runner) verify(name string) (Pin, *workspace.Refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tools[name]
	if t == nil {
		return Pin{}, workspace.Refuse(workspace.CommandNotGranted, "%s is not among the tools of this session; the requester can grant it", name)
	}
	if t.err != nil {
		return Pin{}, workspace.Refuse(workspace.CommandNotGranted, "%s can't be used: %s", name, r.clean(t.err.Error()))
	}
	info, err := os.Stat(t.pin.Path)
	if err != nil {
		return Pin{}, workspace.Refuse(workspace.CommandNotGranted, "%s is no longer on the requester's machine", name)
	}
	if t.info != nil && os.SameFile(info, t.info) && info.Size() == t.info.Size() && info.ModTime().Equal(t.info.ModTime()) {
		return t.pin, nil
	}
	sum, err := hashFile(t.pin.Path)
	if err != nil {
		return Pin{}, workspace.Refuse(workspace.CommandNotGranted, "%s can't be read on the requester's machine", name)
	}
	if t.pin.SHA256 == "" {
		t.pin.SHA256 = sum
	}
	if sum != t.pin.SHA256 {
		return Pin{}, workspace.Refuse(workspace.CommandNotGranted, "%s changed since it was granted; the requester can grant it again", name)
	}
	t.info = info
	return t.pin, nil
}

// clean takes host paths out of a text for the provider.
func (r *Runner) clean(s string) string { return string(newRewriter(r.rules).write([]byte(s), true)) }

// KillAll ends every job and returns when no process of any is left, which
// takes well under a second, or when ctx ends. Call it on revoke, expiry and
// when the session closes; the gate keeps new calls out.
func (r *Runner) KillAll(ctx context.Context) error {
	r.mu.Lock()
	jobs := slices.Clone(r.order)
	r.mu.Unlock()
	for _, j := range jobs {
		j.stop(reasonRevoked)
	}
	for _, j := range jobs {
		select {
		case <-j.dead:
		case <-ctx.Done():
			return fmt.Errorf("kill all commands: %w", ctx.Err())
		}
	}
	return nil
}

// Close ends every job and waits for them. The state directory stays; it is
// the caller's.
func (r *Runner) Close() error {
	r.mu.Lock()
	first := !r.closed
	r.closed = true
	r.mu.Unlock()
	err := r.KillAll(context.Background())
	r.work.Wait()
	if !first {
		return err
	}
	r.spawner.close()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, j := range r.order {
		j.log.Close()
		os.Remove(j.log.Name())
	}
	r.order, r.jobs = nil, map[string]*job{}
	return err
}
