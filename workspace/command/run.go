package command

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weftmesh/weft/workspace"
)

// Request is one command to run.
type Request struct {
	// Plan comes from Match.
	Plan Plan
	// Root is the granted root's name, Cwd the working directory below it, ""
	// for the root itself.
	Root, Cwd string
	// Env holds variables from a short list; others are refused.
	Env map[string]string
	// Stdin is at most 1 MiB. Nil means nothing to read.
	Stdin []byte
	// Timeout is the wall clock; 0 takes the default, more than the maximum
	// the maximum.
	Timeout time.Duration
	// Yield is how long Run waits for the end; 0 takes the default.
	Yield time.Duration
	// MaxBytes caps Output; 0 takes 30000, more than the limit the limit.
	MaxBytes int
	// Progress, if set, gets the redacted output as it comes, until Run
	// returns. It must not block for long.
	Progress func([]byte)
}

// Run starts a command and returns when it has ended or at the yield time,
// then with State Running. If ctx ends before, the command is killed. The error
// is a *workspace.Refusal or a *workspace.Failure.
func (r *Runner) Run(ctx context.Context, q Request) (Result, error) {
	j, err := r.start(ctx, &q)
	if err != nil {
		return Result{}, r.explain(ctx, err)
	}
	yield := q.Yield
	if yield == 0 {
		yield = r.cfg.Limits.Yield
	}
	timer := time.NewTimer(min(max(yield, minYield), maxYield))
	defer timer.Stop()
	select {
	case <-j.done:
	case <-timer.C:
	case <-ctx.Done():
		j.stop(reasonCancelled)
		<-j.done // a kill takes effect at once
	}
	j.quiet()
	return j.result(r.maxBytes(q.MaxBytes))
}

func (r *Runner) maxBytes(n int) int {
	if n <= 0 {
		n = defaultBytes
	}
	return min(n, r.cfg.Limits.MaxBytes)
}

// explain turns an error of ours into one that may be shown.
func (r *Runner) explain(ctx context.Context, err error) error {
	var refusal *workspace.Refusal
	var failure *workspace.Failure
	switch {
	case errors.As(err, &refusal):
		return refusal
	case errors.As(err, &failure):
		return failure
	case ctx.Err() != nil:
		return workspace.Fail("cancelled", "the call was cancelled before the command started")
	}
	r.cfg.Log.Warn("command could not be started", "err", err)
	return workspace.Fail("internal", "the command could not be started on the requester's machine; their log has the reason")
}

// start checks everything and starts the job.
func (r *Runner) start(ctx context.Context, q *Request) (*job, error) {
	if !r.sandbox.Available && !r.cfg.Unsandboxed {
		return nil, workspace.Refuse(workspace.CommandNotGranted, "commands need a sandbox and the requester's machine has none: %s; the requester can %s",
			r.sandbox.Reason, r.sandbox.Fix)
	}
	root, refusal := r.check(q)
	if refusal != nil {
		return nil, refusal
	}
	ctx, abort := context.WithCancel(ctx)
	defer abort()
	j, err := r.admit(q, abort)
	if err != nil {
		return nil, err
	}
	if err := r.launch(ctx, j, root, q); err != nil {
		r.drop(j)
		if j.stopped() {
			return nil, workspace.Refuse(workspace.Killed, "the session was stopped before the command started")
		}
		return nil, err
	}
	return j, nil
}

// check decides what needs nothing but the request.
func (r *Runner) check(q *Request) (*rootID, *workspace.Refusal) {
	i := slices.IndexFunc(r.roots, func(m rootID) bool { return m.Name == q.Root })
	if i < 0 {
		return nil, workspace.Refuse(workspace.OutsideGrant, "no granted root is called %q", q.Root)
	}
	root := &r.roots[i]
	if len(q.Plan.Argv) == 0 {
		return nil, workspace.Refuse(workspace.BadArguments, "no command")
	}
	if q.Cwd != "" {
		if _, bad := workspace.ParsePath(q.Root + "/" + q.Cwd); bad != nil {
			return nil, bad
		}
		if r.secret(q.Cwd) {
			return nil, workspace.Refuse(workspace.SecretPath, "%s/%s is on the denylist", q.Root, q.Cwd)
		}
	}
	if q.Plan.git == gitWrite && !root.Writable && q.Plan.Profile == "" {
		q.Plan.git = gitRead // an exact git command may well only read
	}
	if q.Plan.git == gitWrite && !root.Writable {
		return nil, workspace.Refuse(workspace.NoRight, "%s is read-only in this session, so nothing can be recorded in it", q.Root)
	}
	for _, p := range q.Plan.named(q.Cwd) {
		if r.secret(p) {
			return nil, workspace.Refuse(workspace.SecretPath, "%s/%s is on the denylist", q.Root, p)
		}
	}
	if len(q.Stdin) > maxStdin {
		return nil, workspace.Refuse(workspace.TooLarge, "stdin of %d bytes, the limit is %d", len(q.Stdin), maxStdin)
	}
	if refusal := checkEnv(q.Plan, q.Env); refusal != nil {
		return nil, refusal
	}
	return root, nil
}

// named lists the files that the arguments name, relative to the root.
func (v invocation) named(cwd string) []string {
	out := slices.Clone(v.top)
	for _, p := range v.paths {
		out = append(out, path.Join(cwd, p))
	}
	return out
}

func (r *Runner) secret(rel string) bool {
	return r.cfg.Secret != nil && rel != "" && rel != "." && r.cfg.Secret(rel)
}

// launch makes the sandbox for a job and starts it.
func (r *Runner) launch(ctx context.Context, j *job, root *rootID, q *Request) error {
	for _, id := range r.roots {
		info, err := os.Lstat(id.HostDir)
		if err != nil || !os.SameFile(info, id.info) {
			return workspace.Refuse(workspace.OutsideGrant, "the folder of %s was moved or replaced on the requester's machine; the session has to be opened again", id.Name)
		}
	}
	var pin Pin
	if !inRoot(q.Plan.tool) {
		var refusal *workspace.Refusal
		if pin, refusal = r.verify(q.Plan.tool); refusal != nil {
			return refusal
		}
	}
	denied, err := r.denied(ctx)
	if err != nil {
		return err
	}
	if !q.Plan.readOnly {
		if j.before, err = r.footprint(ctx, denied); err != nil {
			return err
		}
	}
	l, m, err := r.prepare(ctx, j, root, q, pin, denied)
	if err != nil {
		return err
	}
	j.executable, j.sandbox = pin.SHA256, "none"
	return r.begin(j, q, l, m)
}

func (r *Runner) denied(ctx context.Context) ([]DeniedPath, error) {
	if r.cfg.Denied == nil {
		return nil, nil
	}
	return r.cfg.Denied(ctx)
}

// footprint is the state of the writable roots.
func (r *Runner) footprint(ctx context.Context, denied []DeniedPath) (*footprint, error) {
	f := &footprint{roots: map[string]snapshot{}, denied: map[string]bool{}}
	for _, d := range denied {
		f.denied[path.Join(d.Root, d.Rel)] = true
	}
	for _, m := range r.cfg.Roots {
		if !m.Writable {
			continue
		}
		s, err := scan(ctx, m.HostDir, r.cfg.Limits.Entries)
		if err != nil {
			return nil, err
		}
		f.roots[m.Name] = s
	}
	return f, nil
}

// prepare makes the launch and, inside a sandbox, its mounts.
func (r *Runner) prepare(ctx context.Context, j *job, root *rootID, q *Request, pin Pin, denied []DeniedPath) (launch, *mounts, error) {
	boxed := r.sandbox.Available
	m := r.mounts(q.Plan.readOnly)
	m.denied = denied
	pins := []Pin{pin}
	if q.Plan.callsOthers() {
		pins = append(pins, r.helpers...)
	}
	for _, p := range pins {
		m.binds = append(m.binds, p.Mounts...)
	}
	m.binds = uniqueBinds(m.binds)
	place := r.placeOf(root, boxed)
	env := r.env(pins, place)
	args := slices.Clone(q.Plan.args)
	git := q.Plan.git
	if git != gitGuarded {
		repo, err := r.repository(ctx, root)
		if err != nil {
			return launch{}, nil, err
		}
		m.gitDirs = map[string]bool{root.Name + "/.git": true}
		env = append(env, gitEnv(place.root+"/.git", place.root, git, repo.author(r.cfg.Author))...)
		if q.Plan.specs {
			args = append(args, pathspecs(root.Name, denied, len(q.Plan.paths) > 0)...)
		}
	}
	if boxed && !q.Plan.readOnly {
		var err error
		if m.guards, err = r.guards(ctx, j.before); err != nil {
			return launch{}, nil, err
		}
	}
	for k, v := range q.Env {
		env = append(env, k+"="+v)
	}
	l := launch{path: pin.Inside, args: args, env: env, id: j.id, limit: r.cfg.Limits}
	if inRoot(q.Plan.tool) {
		l.path = q.Plan.tool
	} else if !boxed {
		l.path = pin.Path
	}
	if script := pin.Script; script.Host != "" {
		at := script.Inside
		if !boxed {
			at = script.Host
		}
		l.args = append([]string{at}, l.args...)
	}
	l.dir = path.Join(place.root, q.Cwd)
	if !boxed {
		// Without a sandbox a symlink as working directory could lead out.
		real, err := filepath.EvalSymlinks(l.dir)
		if err != nil || !within(real, root.HostDir) {
			return launch{}, nil, workspace.Refuse(workspace.OutsideGrant, "the working directory is not inside %s", root.Name)
		}
		l.dir = real
	} else if !isDir(root.HostDir, q.Cwd) {
		return launch{}, nil, workspace.Fail("not_directory", "%s is not a directory", path.Join(root.Name, q.Cwd))
	}
	return l, m, nil
}

// isDir reports whether a path below a root is a directory, without telling
// anything about what lies outside.
func isDir(root, rel string) bool {
	if rel == "" {
		return true
	}
	dir, err := os.OpenRoot(root)
	if err != nil {
		return false
	}
	defer dir.Close()
	info, err := dir.Stat(filepath.FromSlash(rel))
	return err == nil && info.IsDir()
}

// callsOthers reports whether the command may call any tool of the machine:
// make, npm and whatever was granted exactly.
func (p Plan) callsOthers() bool {
	return p.Profile == "" || p.Profile == "make" || p.Profile == "npm-test"
}

// place says where things are for the command.
type place struct{ root, cache, home, tmp string }

func (r *Runner) placeOf(root *rootID, boxed bool) place {
	if boxed {
		return place{"/work/" + root.Name, "/cache", "/tmp/home", "/tmp"}
	}
	s := r.cfg.StateDir
	return place{root.HostDir, filepath.Join(s, "cache"), filepath.Join(s, "home"), filepath.Join(s, "tmp")}
}

// env is the environment built from nothing.
func (r *Runner) env(pins []Pin, at place) []string {
	boxed := strings.HasPrefix(at.root, "/work/") && at.cache == "/cache"
	var dirs, own []string
	modules := ""
	for _, p := range pins {
		exe := p.Path
		if boxed {
			exe = p.Inside
			own = append(own, p.Env...)
		}
		if filepath.IsAbs(exe) {
			dirs = append(dirs, filepath.Dir(exe))
		}
		for _, b := range p.Mounts {
			if b.Inside == goModules {
				modules = b.Host
				if boxed {
					modules = b.Inside
				}
			}
		}
	}
	return slices.Concat(baseEnv(dirs, at.home, at.tmp), toolEnv(at.cache, r.cfg.AllowNet, modules), own)
}

func uniqueBinds(list []Bind) []Bind {
	var out []Bind
	for _, b := range list {
		if !slices.Contains(out, b) {
			out = append(out, b)
		}
	}
	return out
}
