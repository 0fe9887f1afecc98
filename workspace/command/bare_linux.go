package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

func bareAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// killMarked kills every process of this user that carries the job's marker.
// It looks again until none is new, since they may fork meanwhile.
func killMarked(id string) {
	want := []byte("\x00" + markerVar + "=" + id + "\x00")
	for range 20 {
		found := false
		list, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, p := range list {
			env, err := os.ReadFile(p)
			if err != nil || !bytes.Contains(append(append([]byte{0}, env...), 0), want) {
				continue
			}
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(p))); err == nil {
				found = syscall.Kill(pid, syscall.SIGKILL) == nil || found
			}
		}
		if !found {
			return
		}
	}
}
