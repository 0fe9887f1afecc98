//go:build unix

package agents

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/term"
)

// group puts the agent into a process group of its own, so that all it starts
// can be stopped together. On a terminal it stays in ours: a group in the
// background may not read the keyboard.
func group(cmd *exec.Cmd) {
	if f, ok := cmd.Stdin.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// stopGroup signals the agent and, in a group of its own, what it started.
func stopGroup(cmd *exec.Cmd, hard bool) error {
	sig := syscall.SIGTERM
	if hard {
		sig = syscall.SIGKILL
	}
	if cmd.SysProcAttr != nil && cmd.SysProcAttr.Setpgid {
		return syscall.Kill(-cmd.Process.Pid, sig)
	}
	return cmd.Process.Signal(sig)
}
