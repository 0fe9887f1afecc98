package command

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// startTimeout bounds the making of a sandbox.
const startTimeout = 20 * time.Second

// boxed is a command in a sandbox: bubblewrap outside, its init inside, which
// is process 1 of a PID namespace. Killing either kills everything.
type boxed struct {
	cmd    *exec.Cmd
	init   int // pidfd of process 1
	initID int
	cg     *cgroup
	gone   chan struct{}

	exited chan struct{} // closed when the status pipe ended
	ran    bool          // the command itself was started and its exit seen

	mu     sync.Mutex // guards closed and init's use
	closed bool
}

// status is one document of --json-status-fd.
type status struct {
	Child *int `json:"child-pid"`
	Exit  *int `json:"exit-code"`
}

// startBoxed starts l inside the sandbox that args describe. The command runs
// only after its limits are set.
func startBoxed(s *spawner, bwrap string, args []string, filter []byte, l launch) (process, error) {
	argFile, err := memfile("args", []byte(strings.Join(args, "\x00")+"\x00"))
	if err != nil {
		return nil, err
	}
	defer argFile.Close()
	bpf, err := memfile("seccomp", filter)
	if err != nil {
		return nil, err
	}
	defer bpf.Close()
	statusR, statusW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer statusW.Close()
	goR, goW, err := os.Pipe()
	if err != nil {
		statusR.Close()
		return nil, err
	}
	defer goR.Close()
	defer goW.Close()
	cmd := exec.Command(bwrap, append([]string{"--args", "3", "--seccomp", "4", "--json-status-fd", "5", "--block-fd", "6", "--", l.path}, l.args...)...)
	cmd.ExtraFiles = []*os.File{argFile, bpf, statusW, goR}
	cmd.Env, cmd.Dir = l.env, "/"
	cmd.Stdout, cmd.Stderr = l.out, l.out
	if l.stdin != nil {
		cmd.Stdin = l.stdin
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	s.do(func() {
		// What this process itself inherited without the close-on-exec mark
		// must not reach the command (Go marks its own).
		unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
		err = cmd.Start()
	})
	if err != nil {
		statusR.Close()
		return nil, err
	}
	statusW.Close()
	b := &boxed{cmd: cmd, init: -1, gone: make(chan struct{}), exited: make(chan struct{})}
	child := make(chan int, 1)
	go b.readStatus(statusR, child) // ends with bubblewrap, which wait waits for
	if err := b.prepare(child, l); err != nil {
		cmd.Process.Kill()
		b.kill()
		cmd.Wait()
		<-b.exited
		b.close()
		return nil, err
	}
	go b.watch() // ends with process 1, which wait waits for
	if _, err := goW.Write([]byte{1}); err != nil {
		b.kill()
	}
	return b, nil
}

func memfile(name string, content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("weft-"+name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memory file for the sandbox: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.Write(content); err != nil {
		f.Close()
		return nil, fmt.Errorf("memory file for the sandbox: %w", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// readStatus follows bubblewrap's own account.
func (b *boxed) readStatus(r *os.File, child chan<- int) {
	defer r.Close()
	defer close(b.exited)
	defer close(child)
	lines := bufio.NewScanner(io.LimitReader(r, 64<<10))
	for lines.Scan() {
		var st status
		if json.Unmarshal(lines.Bytes(), &st) != nil {
			continue
		}
		if st.Child != nil {
			select {
			case child <- *st.Child:
			default:
			}
		}
		if st.Exit != nil {
			b.ran = true
		}
	}
}

// prepare waits for process 1, takes a handle on it and sets its limits.
func (b *boxed) prepare(child <-chan int, l launch) error {
	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	select {
	case pid, ok := <-child:
		if !ok {
			return errNotRun
		}
		b.initID = pid
	case <-timer.C:
		return fmt.Errorf("%w within %s", errNotRun, startTimeout)
	}
	fd, err := unix.PidfdOpen(b.initID, 0)
	if err != nil {
		return fmt.Errorf("handle on the sandbox: %w", err)
	}
	b.init = fd
	return b.limit(l)
}

// watch closes gone when process 1 has ended; by then the kernel has ended
// every process of its namespace.
func (b *boxed) watch() {
	fds := []unix.PollFd{{Fd: int32(b.init), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); err != unix.EINTR {
			break
		}
	}
	close(b.gone)
}

func (b *boxed) wait() (int, syscall.Signal, error) {
	err := b.cmd.Wait()
	b.signalInit(unix.SIGKILL) // what the command left behind
	<-b.gone
	<-b.exited
	b.close()
	code, sig, err := exitOf(b.cmd, err)
	if err == nil && sig == 0 && !b.ran {
		err = errNotRun
	}
	if sig == 0 && code > 128 && code < 128+65 {
		sig = syscall.Signal(code - 128)
	}
	return code, sig, err
}

func (b *boxed) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.closed = true
	if b.init >= 0 {
		unix.Close(b.init)
	}
	b.cg.remove()
}

func (b *boxed) signalInit(sig unix.Signal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed && b.init >= 0 {
		unix.PidfdSendSignal(b.init, sig, nil, 0)
	}
}

func (b *boxed) kill() {
	b.signalInit(unix.SIGKILL)
	b.cmd.Process.Kill()
}

// term sends SIGTERM to every process of the namespace but its init, which
// ignores it.
func (b *boxed) term() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	for _, pid := range descendants(b.initID, nil, 0) {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		if inNamespace(pid, b.initID) { // the pid may have been reused before we had the handle
			unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0)
		}
		unix.Close(fd)
	}
}

func (b *boxed) dead() <-chan struct{} { return b.gone }

// descendants lists the children of pid, theirs and so on.
func descendants(pid int, list []int, depth int) []int {
	if depth > 64 || len(list) > 10_000 {
		return list
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return list
	}
	for f := range strings.FieldsSeq(string(raw)) {
		if c, err := strconv.Atoi(f); err == nil {
			list = descendants(c, append(list, c), depth+1)
		}
	}
	return list
}

// inNamespace reports whether two processes share a PID namespace.
func inNamespace(a, b int) bool {
	x, errX := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", a))
	y, errY := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", b))
	return errX == nil && errY == nil && x == y
}
