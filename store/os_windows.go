package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// sharingViolation is ERROR_SHARING_VIOLATION of winerror.h.
const sharingViolation = syscall.Errno(32)

// lockExclusive opens a file that nobody else may open meanwhile.
func lockExclusive(path string) (f *os.File, held bool, err error) {
	p, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, false, err
	}
	h, err := syscall.CreateFile(p, syscall.GENERIC_READ|syscall.GENERIC_WRITE, 0, nil, syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, errors.Is(err, sharingViolation), err
	}
	return os.NewFile(uintptr(h), path), false, nil
}

// unlock does nothing: closing gives the file up.
func unlock(*os.File) error { return nil }

// diskUse adds up the sizes of a folder's files.
func diskUse(dir string) int64 {
	var sum int64
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if fi, err := d.Info(); err == nil {
			sum += fi.Size()
		}
		return nil
	})
	return sum
}
