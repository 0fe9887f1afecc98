package files

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// createTemp makes a new file in a pinned directory. The umask applies to mode.
func (p *pin) createTemp(name string, mode fs.FileMode) (*file, error) {
	fd, err := unix.Openat(p.fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, uint32(mode.Perm()))
	if err != nil {
		return nil, err
	}
	return &file{fd}, nil
}

func (f *file) write(b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(f.fd, b)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// own gives the file an owner, if the process may; a provider's edit must not
// need more.
func (f *file) own(uid, gid uint32) {
	if unix.Fchown(f.fd, int(uid), int(gid)) != nil {
		_ = unix.Fchown(f.fd, -1, int(gid))
	}
}

func (f *file) chmod(mode fs.FileMode) error { return unix.Fchmod(f.fd, uint32(mode.Perm())) }
func (f *file) sync() error                  { return unix.Fsync(f.fd) }

func (p *pin) mkdir(name string) error  { return unix.Mkdirat(p.fd, name, 0o777) }
func (p *pin) unlink(name string) error { return unix.Unlinkat(p.fd, name, 0) }

// place renames temp to a name that must not exist.
func (p *pin) place(temp, name string) error {
	err := unix.Renameat2(p.fd, temp, p.fd, name, unix.RENAME_NOREPLACE)
	if err != unix.EINVAL && err != unix.ENOSYS {
		return err
	}
	if err := unix.Linkat(p.fd, temp, p.fd, name, 0); err != nil {
		return err
	}
	return p.unlink(temp)
}

// exchange swaps the files of two names. done is false where the file system
// can't.
func (p *pin) exchange(a, b string) (done bool, err error) {
	err = unix.Renameat2(p.fd, a, p.fd, b, unix.RENAME_EXCHANGE)
	if err == unix.EINVAL || err == unix.ENOSYS {
		return false, nil
	}
	return true, err
}

// rename replaces a name.
func (p *pin) rename(from, to string) error { return unix.Renameat(p.fd, from, p.fd, to) }

// syncDir makes the names in a pinned directory durable.
func (p *pin) syncDir() error {
	fd, err := p.reopen(unix.O_RDONLY | unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fsync(fd)
}
