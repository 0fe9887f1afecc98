//go:build unix

package home

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes the lock without waiting: alone, or shared with other readers.
// Closing the file gives it back.
func tryLock(f *os.File, alone bool) error {
	how := syscall.LOCK_SH
	if alone {
		how = syscall.LOCK_EX
	}
	err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errHeld
	}
	return err
}
