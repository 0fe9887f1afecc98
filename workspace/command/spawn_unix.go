//go:build unix

package command

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

func (s *spawner) run() {
	runtime.LockOSThread()
	defer close(s.done)
	for f := range s.work {
		f()
	}
}

// bare is a command without a sandbox, in a session and process group of its
// own.
type bare struct {
	cmd  *exec.Cmd
	id   string
	gone chan struct{}
	once sync.Once
}

// markerVar is in the environment of every unsandboxed process of a job, so
// that those that left the process group are found.
const markerVar = "WEFT_JOB"

func startBare(s *spawner, l launch) (process, error) {
	cmd := exec.Command(l.path, l.args...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = l.dir, nil, l.out, l.out
	if l.stdin != nil {
		cmd.Stdin = l.stdin
	}
	cmd.Env = append(l.env, markerVar+"="+l.id)
	cmd.SysProcAttr = bareAttr()
	var err error
	s.do(func() { err = cmd.Start() })
	if err != nil {
		return nil, err
	}
	return &bare{cmd: cmd, id: l.id, gone: make(chan struct{})}, nil
}

func (b *bare) wait() (int, syscall.Signal, error) {
	err := b.cmd.Wait()
	b.kill() // what it left behind
	b.once.Do(func() { close(b.gone) })
	return exitOf(b.cmd, err)
}

func (b *bare) term() { syscall.Kill(-b.cmd.Process.Pid, syscall.SIGTERM) }

func (b *bare) kill() {
	syscall.Kill(-b.cmd.Process.Pid, syscall.SIGKILL)
	killMarked(b.id)
}

func (b *bare) dead() <-chan struct{} { return b.gone }
