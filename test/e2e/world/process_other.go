//go:build unix && !linux

package world

import "syscall"

// found is a process that was left over.
type found struct {
	pid     int
	command string
}

func groupAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func killGroup(pgid int) { syscall.Kill(-pgid, syscall.SIGKILL) }

// adoptOrphans needs Linux; elsewhere only process groups are checked.
func adoptOrphans() error { return nil }

// groupMembers reports that a group still has members, without naming them.
func groupMembers(pgid int) []found {
	if syscall.Kill(-pgid, 0) == nil {
		return []found{{pid: -pgid, command: "(process group)"}}
	}
	return nil
}

func descendants() []found { return nil }
