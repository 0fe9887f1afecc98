package command

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// guardTick is how often a running job's use of the machine is looked at.
const guardTick = 250 * time.Millisecond

// guard ends the job at its wall-clock limit, and before it takes the
// machine's last memory or disk.
func (j *job) guard(timeout time.Duration) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	tick := time.NewTicker(guardTick)
	defer tick.Stop()
	limits := j.runner.cfg.Limits
	dirs := []string{j.runner.cfg.StateDir}
	for _, m := range j.runner.cfg.Roots {
		if m.Writable {
			dirs = append(dirs, m.HostDir)
		}
	}
	low := int64(limits.FreeBytes)
	memory := freeMemory() > low
	disk := freeDisk(dirs) > low
	for {
		select {
		case <-j.dead:
			return
		case <-timer.C:
			j.stop(reasonTimeout)
		case <-tick.C:
			if memory && freeMemory() < low {
				j.stop(reasonMemory)
			}
			if disk && freeDisk(dirs) < low {
				j.stop(reasonDisk)
			}
		}
	}
}

// finish waits for the end and makes the result final.
func (j *job) finish(p process, out *os.File, pumped <-chan struct{}) {
	code, sig, err := p.wait()
	<-p.dead()
	ended := time.Now()
	close(j.dead)
	// Every writer is dead, so the pipe ends; without a sandbox an escaped
	// process could still hold it.
	out.SetReadDeadline(time.Now().Add(time.Second))
	<-pumped

	res := Result{Job: j.id, State: Exited, Exit: code, Duration: ended.Sub(j.started), Sandbox: j.sandbox, Executable: j.executable}
	j.mu.Lock()
	killed := j.killed
	j.mu.Unlock()
	if sig != 0 {
		res.Signal = signalName(sig)
	}
	if killed != "" {
		res.State, res.Reason, res.Exit = Killed, killed, 0
		if res.Signal == "" {
			res.Signal = "KILL"
		}
	} else if errors.Is(err, errNotRun) {
		res.Exit = 127 // as a shell says: the output has bubblewrap's reason why it can't be executed
	} else if err != nil {
		j.runner.cfg.Log.Warn("command ended without a status", "job", j.id, "err", err)
		res.State, res.Reason, res.Exit = Killed, reasonSandbox, 0
	}
	j.account(&res)
	j.mu.Lock()
	j.final, j.before = res, nil
	close(j.more)
	j.more = make(chan struct{})
	j.mu.Unlock()
	close(j.done)
}

// reasonSandbox says that the sandbox ended without running the command to its
// end.
const reasonSandbox = "sandbox"

// account compares the writable roots with what they were.
func (j *job) account(res *Result) {
	if j.before == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(2+len(j.before.roots))*scanTime)
	defer cancel()
	denied, err := j.runner.denied(ctx)
	if err == nil {
		var after *footprint
		if after, err = j.runner.footprint(ctx, denied); err == nil {
			j.before.compare(after, res)
		}
	}
	if err != nil {
		j.runner.cfg.Log.Warn("changes of a command are not known", "job", j.id, "err", err)
		res.ChangedTruncated = true
	}
}

var signalNames = map[syscall.Signal]string{
	syscall.SIGHUP: "HUP", syscall.SIGINT: "INT", syscall.SIGQUIT: "QUIT", syscall.SIGILL: "ILL", syscall.SIGTRAP: "TRAP",
	syscall.SIGABRT: "ABRT", syscall.SIGFPE: "FPE", syscall.SIGKILL: "KILL", syscall.SIGSEGV: "SEGV",
	syscall.SIGPIPE: "PIPE", syscall.SIGALRM: "ALRM", syscall.SIGTERM: "TERM",
	syscall.Signal(24): "XCPU", syscall.Signal(25): "XFSZ", syscall.Signal(31): "SYS",
}

func signalName(s syscall.Signal) string {
	if n, ok := signalNames[s]; ok {
		return n
	}
	return itoa(int(s))
}
