//go:build unix

package world

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// stopPatience is how long a process may take after SIGTERM.
const stopPatience = 30 * time.Second

// pipePatience is how long output pipes may stay open after the process ended:
// a grandchild that holds them is a leftover, and reported as one.
const pipePatience = 2 * time.Second

// Process is a running command of a world: the leader of its own process
// group, with its output kept.
type Process struct {
	name string
	cmd  *exec.Cmd
	out  *output
	errs *output

	in   io.WriteCloser
	done chan struct{} // closed after the process was reaped
	took time.Duration // set before done closes
	werr error         // set before done closes

	mu   sync.Mutex // guards below
	read int        // where in out the next line starts
}

// Spec says what to start.
type Spec struct {
	// Name is used in messages. Default: the command.
	Name string
	// Argv is the command and its arguments. Required.
	Argv []string
	// Env is the whole environment. Required.
	Env []string
	// Dir is the working directory. Default: the world's folder.
	Dir string
	// Stdin is read by the process; nil gives it a pipe that Send writes to.
	Stdin io.Reader
	// Node, when set, runs the process in that node's network.
	Node *Node

	log *output // also receives standard error
}

// Start starts a process that ends with the world at the latest.
func (w *World) Start(t testing.TB, s Spec) *Process {
	t.Helper()
	p := &Process{name: s.Name, out: newOutput(), errs: newOutput(), done: make(chan struct{})}
	if p.name == "" {
		p.name = s.Argv[0]
	}
	p.cmd = exec.Command(s.Argv[0], s.Argv[1:]...)
	p.cmd.Env, p.cmd.Dir = s.Env, s.Dir
	if s.Dir == "" {
		p.cmd.Dir = w.Dir
	}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.errs
	if s.log != nil {
		p.cmd.Stderr = io.MultiWriter(p.errs, s.log)
	}
	p.cmd.SysProcAttr = groupAttr()
	p.cmd.WaitDelay = pipePatience
	if s.Stdin != nil {
		p.cmd.Stdin = s.Stdin
	} else {
		in, err := p.cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		p.in = in
	}
	run := func() error { return p.cmd.Start() }
	if s.Node != nil && s.Node.ns != nil {
		inner := run
		run = func() error { return s.Node.ns.do(inner) }
	}
	began := time.Now()
	if err := run(); err != nil {
		t.Fatalf("start %s: %v", p.name, err)
	}
	go func() {
		p.werr = p.cmd.Wait()
		p.took = time.Since(began)
		p.out.end()
		p.errs.end()
		close(p.done)
	}()
	w.add(p)
	return p
}

// PID is the process's id, and its group's.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process ended and all its output was read.
func (p *Process) Done() <-chan struct{} { return p.done }

// Line waits for the next whole line of standard output. ok is false when the
// output ended or the deadline passed.
func (p *Process) Line(d time.Duration) (line []byte, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		line, next, more := p.out.line(p.read)
		if next > p.read {
			p.read = next
			return line, true
		}
		if more == nil {
			return nil, false
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// Send writes to the process's standard input.
func (p *Process) Send(b []byte) error {
	_, err := p.in.Write(b)
	return err
}

// CloseInput ends the process's standard input.
func (p *Process) CloseInput() error { return p.in.Close() }

// Stderr is what the process has written to standard error so far.
func (p *Process) Stderr() string { return string(p.errs.bytes()) }

// Stdout is what the process has written to standard output so far.
func (p *Process) Stdout() string { return string(p.out.bytes()) }

// Wait waits for the end and returns the exit code; the test fails when the
// process outlives d.
func (p *Process) Wait(t testing.TB, d time.Duration) int {
	t.Helper()
	if !p.ended(d) {
		p.End()
		t.Fatalf("%s: still running after %v\nstdout: %s\nstderr: %s", p.name, d, p.out.tail(), p.errs.tail())
	}
	return p.code()
}

func (p *Process) ended(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}

// code is the exit code: 128 and the signal's number for a signal, as shells
// say it; -1 when it is not known. Call it after done.
func (p *Process) code() int {
	state := p.cmd.ProcessState
	if state == nil {
		return -1
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}

// Signal sends a signal to the process alone.
func (p *Process) Signal(sig syscall.Signal) error { return p.cmd.Process.Signal(sig) }

// Stop asks the process to end with SIGTERM and returns its exit code.
func (p *Process) Stop(t testing.TB) int {
	t.Helper()
	select {
	case <-p.done:
		return p.code()
	default:
	}
	if err := p.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Logf("stop %s: %v", p.name, err)
	}
	return p.Wait(t, stopPatience)
}

// End kills the whole group and waits for the process. It is safe to call at
// any time, any number of times.
func (p *Process) End() {
	select {
	case <-p.done:
	default:
		killGroup(p.PID())
		<-p.done
	}
}

// dying is how long the rest of a group may take to follow its leader.
const dying = 5 * time.Second

// leftovers names what is left of the process's group after its end and the
// time that dying takes, and ends it.
func (p *Process) leftovers() string {
	left := settle(dying, func() string {
		var names []string
		for _, q := range groupMembers(p.PID()) {
			names = append(names, fmt.Sprintf("pid %d: %s", q.pid, q.command))
		}
		return strings.Join(names, "; ")
	})
	for _, q := range groupMembers(p.PID()) {
		syscall.Kill(q.pid, syscall.SIGKILL)
	}
	return left
}
