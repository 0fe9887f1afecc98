//go:build unix

package identity

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// openKeyFile opens without following a link and without waiting on a FIFO.
func openKeyFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("%w: %s is a symbolic link; put the key itself there", ErrKeyFile, path)
	}
	return f, err
}

// private refuses a file that somebody else owns or can read.
func private(path string, info fs.FileInfo) error {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%w: %s belongs to user %d and weft runs as user %d; run weft as its owner", ErrKeyFile, path, st.Uid, os.Geteuid())
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%w: %s can be read by others (mode %04o); run: chmod 600 %s", ErrKeyFile, path, info.Mode().Perm(), path)
	}
	return nil
}

// guarded refuses a folder in which others could swap the key file.
func guarded(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("look at the key's folder: %w", err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%w: its folder %s belongs to user %d; use a folder of your own (--home)", ErrKeyFile, dir, st.Uid)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%w: others can write to its folder (mode %04o); run: chmod 700 %s", ErrKeyFile, info.Mode().Perm(), dir)
	}
	return nil
}

// syncDir makes a new name in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
