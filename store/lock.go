package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// fileLock is the exclusive right to a folder. The system drops it when the
// process ends, however it ends.
type fileLock struct {
	f   *os.File
	dir string
}

// acquire locks the folder and writes who holds it.
func acquire(dir string) (*fileLock, error) {
	f, held, err := lockExclusive(filepath.Join(dir, lockFile))
	if held {
		return nil, inUse(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	l := &fileLock{f: f, dir: dir}
	if err := os.WriteFile(filepath.Join(dir, pidFile), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		_ = f.Close()
		return nil, refused(err)
	}
	return l, nil
}

// release gives the folder up. The files stay: removing a lock file lets two
// processes lock two files of the same name.
func (l *fileLock) release() error {
	err := errors.Join(os.Truncate(filepath.Join(l.dir, pidFile), 0), unlock(l.f))
	if cerr := l.f.Close(); err == nil {
		err = cerr
	}
	return err
}

// inUse names the process that has the folder, as far as the pid file says.
func inUse(dir string) error {
	who := "another process"
	if f, err := os.Open(filepath.Join(dir, pidFile)); err == nil {
		raw, _ := io.ReadAll(io.LimitReader(f, 32))
		_ = f.Close()
		if pid, err := strconv.Atoi(strings.TrimSpace(string(raw))); err == nil && pid > 0 {
			who = "process " + strconv.Itoa(pid)
			if pid == os.Getpid() {
				who = "this process"
			}
		}
	}
	return fmt.Errorf("%w: %s has %s open. Stop it first, or use its API", ErrInUse, who, dir)
}
