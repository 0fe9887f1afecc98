package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"time"
)

// mounts are those that every command of the session has.
func (r *Runner) mounts(readOnly bool) *mounts {
	return &mounts{
		roots: r.cfg.Roots, state: r.cfg.StateDir, fixtures: path.Join(r.cfg.StateDir, "sandbox"),
		readOnly: readOnly, net: r.cfg.AllowNet, tmp: r.cfg.Limits.TmpBytes,
	}
}

// open starts l, in a sandbox if there is one.
func (r *Runner) open(l launch, m *mounts) (process, error) {
	if !r.sandbox.Available {
		if !r.cfg.Unsandboxed {
			return nil, errNoSandbox
		}
		return startBare(r.spawner, l)
	}
	args, err := m.args()
	if err != nil {
		return nil, err
	}
	args = append(args, "--chdir", l.dir)
	return startBoxed(r.spawner, r.sandbox.path, args, r.filter, l)
}

var errNoSandbox = errors.New("no sandbox")

// askTimeout bounds a question of ours to a tool.
const askTimeout = 10 * time.Second

// ask runs a tool of ours with fixed arguments and read-only roots and returns
// its output, at most 1 MiB.
func (r *Runner) ask(ctx context.Context, tool string, args ...string) ([]byte, error) {
	pin, refusal := r.verify(tool)
	if refusal != nil {
		return nil, refusal
	}
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer out.Close()
	at := r.placeOf(&r.roots[0], r.sandbox.Available)
	l := launch{path: pin.Inside, args: args, dir: at.tmp, out: in, id: "ask-" + newID(), limit: r.cfg.Limits,
		env: append(baseEnv(nil, at.home, at.tmp), gitEnv("/dev/null", "/", gitRead, Author{})...)}
	if !r.sandbox.Available {
		l.path = pin.Path
	}
	p, err := r.open(l, r.mounts(true))
	in.Close()
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, p.kill)
	defer stop()
	timer := time.AfterFunc(askTimeout, p.kill)
	defer timer.Stop()
	var buf bytes.Buffer
	read := make(chan struct{})
	go func() { // ends when no process holds the pipe, or at the deadline below
		defer close(read)
		io.Copy(&buf, io.LimitReader(out, 1<<20))
	}()
	code, _, err := p.wait()
	out.SetReadDeadline(time.Now().Add(time.Second))
	<-read
	if err == nil && code != 0 {
		err = fmt.Errorf("exit %d: %.200s", code, buf.Bytes())
	}
	return buf.Bytes(), err
}
