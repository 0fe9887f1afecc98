//go:build unix

package home

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes the lock without waiting: alone, or shared with other readers.
// It ends with unlock, or with the last descriptor of the open file.
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

// unlock gives the lock back, whoever else has a descriptor of the file.
func unlock(f *os.File) { _ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
