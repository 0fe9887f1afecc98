//go:build linux || darwin || freebsd

package node

import (
	"fmt"
	"syscall"
)

// freeSpace is how many bytes an unprivileged process may still write where
// path is.
func freeSpace(path string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return 0, fmt.Errorf("look at the disk: %w", err)
	}
	return int64(uint64(st.Bavail) * uint64(st.Bsize)), nil
}

// descriptorLimit is how many files this process may have open. Go has raised
// it to the hard limit by now.
func descriptorLimit() (uint64, error) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0, fmt.Errorf("look at the limit of open files: %w", err)
	}
	return uint64(l.Cur), nil
}
