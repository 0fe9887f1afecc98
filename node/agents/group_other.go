//go:build !unix

package agents

import "os/exec"

func group(*exec.Cmd) {}

// stopGroup stops the agent itself; this system has no process groups.
func stopGroup(cmd *exec.Cmd, _ bool) error { return cmd.Process.Kill() }
