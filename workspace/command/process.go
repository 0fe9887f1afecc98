package command

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// process is one running command with everything it started.
type process interface {
	// wait returns when the command itself has ended: its exit code and the
	// signal that ended it, 0 if none. err is set if it never ran.
	wait() (code int, sig syscall.Signal, err error)
	// term asks every process to end, kill ends them.
	term()
	kill()
	// dead is closed when no process of the command is left.
	dead() <-chan struct{}
}

// launch is what to start.
type launch struct {
	path  string
	args  []string
	dir   string
	env   []string
	stdin *os.File // nil: /dev/null
	out   *os.File // stdout and stderr
	id    string   // of the job
	limit Limits
}

var errNotRun = errors.New("the command did not start")

// spawner starts processes from one OS thread that lives as long as the
// Runner. "Die with parent" is a property of the parent's thread, and Go may
// end a thread whose locked goroutine returned.
type spawner struct {
	work chan func()
	done chan struct{}
}

func newSpawner() *spawner {
	s := &spawner{work: make(chan func()), done: make(chan struct{})}
	go s.run() // owned by close
	return s
}

// do runs f on the spawner's thread.
func (s *spawner) do(f func()) {
	ran := make(chan struct{})
	s.work <- func() { f(); close(ran) }
	<-ran
}

func (s *spawner) close() {
	close(s.work)
	<-s.done
}

// exitOf reads how a child ended.
func exitOf(cmd *exec.Cmd, err error) (int, syscall.Signal, error) {
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, 0, fmt.Errorf("wait for the command: %w", err)
	}
	st := cmd.ProcessState
	if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), ws.Signal(), nil
	}
	return st.ExitCode(), 0, nil
}
