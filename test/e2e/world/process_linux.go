package world

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// found is a process seen in /proc.
type found struct {
	pid     int
	command string
}

// groupAttr makes a child the leader of a new group that dies with the test.
func groupAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// killGroup kills every process of the group of a child that was not reaped
// yet: until then its id can't belong to anybody else.
func killGroup(pgid int) { unix.Kill(-pgid, unix.SIGKILL) }

// adoptOrphans makes this process the parent of descendants whose own parent
// ended, so that none can hide below init.
func adoptOrphans() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// stat is the part of /proc/PID/stat that is used here.
type stat struct {
	found
	state byte
	ppid  int
	pgrp  int
}

// processes reads all of /proc. Processes that end meanwhile are left out.
func processes() []stat {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var all []stat
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		// The command name in brackets may hold spaces and brackets.
		rest := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if len(rest) < 3 {
			continue
		}
		s := stat{found: found{pid: pid}, state: rest[0][0]}
		s.ppid, _ = strconv.Atoi(rest[1])
		s.pgrp, _ = strconv.Atoi(rest[2])
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		s.command = strings.TrimSpace(string(bytes.ReplaceAll(cmdline, []byte{0}, []byte{' '})))
		all = append(all, s)
	}
	return all
}

// below marks the ids of this process and of everything below it.
func below(all []stat) map[int]bool {
	in := map[int]bool{os.Getpid(): true}
	for grew := true; grew; {
		grew = false
		for _, s := range all {
			if in[s.ppid] && !in[s.pid] {
				in[s.pid], grew = true, true
			}
		}
	}
	return in
}

// groupMembers lists the live members of a group, and reaps the adopted dead.
// Only descendants count: the group's id may have been given to a stranger.
func groupMembers(pgid int) []found {
	var live []found
	all := processes()
	mine := below(all)
	for _, s := range all {
		switch {
		case s.pgrp != pgid || !mine[s.pid]:
		case s.state != 'Z':
			live = append(live, s.found)
		case s.ppid == os.Getpid() && s.pid != pgid:
			// An orphan this process adopted; os/exec waits for leaders only.
			unix.Wait4(s.pid, nil, unix.WNOHANG, nil)
		}
	}
	return live
}

// descendants lists what lives below this process.
func descendants() []found {
	all := processes()
	mine := below(all)
	var live []found
	for _, s := range all {
		if s.pid != os.Getpid() && mine[s.pid] && s.state != 'Z' {
			live = append(live, s.found)
		}
	}
	return live
}
