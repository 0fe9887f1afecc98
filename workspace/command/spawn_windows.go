//go:build windows

package command

import (
	"os/exec"
	"syscall"
)

func (s *spawner) run() {
	defer close(s.done)
	for f := range s.work {
		f()
	}
}

// bare is a command without a sandbox. Windows ends the process only, not what
// it started.
type bare struct {
	cmd  *exec.Cmd
	gone chan struct{}
}

func startBare(s *spawner, l launch) (process, error) {
	cmd := exec.Command(l.path, l.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = l.dir, l.out, l.out, l.env
	if l.stdin != nil {
		cmd.Stdin = l.stdin
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &bare{cmd: cmd, gone: make(chan struct{})}, nil
}

func (b *bare) wait() (int, syscall.Signal, error) {
	err := b.cmd.Wait()
	close(b.gone)
	return exitOf(b.cmd, err)
}

func (b *bare) term()                 { b.cmd.Process.Kill() }
func (b *bare) kill()                 { b.cmd.Process.Kill() }
func (b *bare) dead() <-chan struct{} { return b.gone }
