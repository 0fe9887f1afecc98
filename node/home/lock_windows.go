//go:build windows

package home

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lockOffset keeps the locked byte away from the text: Windows locks are
// mandatory, and others must be able to read the process id.
const lockOffset = 1 << 30

// tryLock takes the lock without waiting: alone, or shared with other readers.
// It ends with unlock, or with the file.
func tryLock(f *os.File, alone bool) error {
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if alone {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{Offset: lockOffset})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errHeld
	}
	return err
}

// unlock gives the lock back.
func unlock(f *os.File) {
	_ = windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &windows.Overlapped{Offset: lockOffset})
}
