//go:build linux || darwin || freebsd

package store

import "syscall"

// diskFree returns the bytes that we may still write where the folder is, and
// whether that is known.
func diskFree(dir string) (int64, bool) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return int64(st.Bavail) * int64(st.Bsize), true
}
