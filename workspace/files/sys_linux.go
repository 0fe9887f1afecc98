package files

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// base is the handle of a granted root.
type base struct {
	fd   int
	real string // the root's host path, without links
	id   ident
	mnt  uint64
	// walk resolves component by component, for kernels without openat2.
	walk bool
}

// pin is an object held by an O_PATH descriptor: it can be described, listed,
// reopened, but holding it has no effect on it, whatever it is.
type pin struct {
	base *base
	fd   int
	info
	mnt uint64
}

// file is an open regular file. It is a bare descriptor, since os.File would
// register it with the poller for each 4 KiB read.
type file struct{ fd int }

func openBase(dir string) (*base, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	b := &base{fd: fd}
	p := pin{fd: fd}
	if err = p.stat(); err == nil {
		b.id, b.mnt = p.id, p.mnt
		b.real, err = kernelName(fd)
	}
	if err == nil && b.moved() {
		err = fmt.Errorf("open files have no name under /proc/self/fd; weft needs /proc")
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH}
	if probe, err := unix.Openat2(fd, ".", &how); err == nil {
		unix.Close(probe)
	} else {
		b.walk = true
	}
	return b, nil
}

func (b *base) close() { unix.Close(b.fd) }

// moved reports whether the root's path leads elsewhere than when it was
// opened. A link put in its place is found by the kernel's name of what is
// opened below.
func (b *base) moved() bool {
	var st unix.Stat_t
	if err := unix.Stat(b.real, &st); err != nil {
		return true
	}
	return st.Dev != b.id.dev || st.Ino != b.id.ino
}

// openBelow opens what is named below dirfd, without following or crossing
// anything. The last component may be a link: it is then what is opened.
func (b *base) openBelow(dirfd int, rel string) (int, error) {
	if rel == "" {
		rel = "."
	}
	if b.walk {
		return b.walkBelow(dirfd, rel)
	}
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	}
	for try := 0; ; try++ {
		fd, err := unix.Openat2(dirfd, rel, &how)
		// EAGAIN: the kernel could not rule out a rename race; it is not endless.
		if (err == unix.EAGAIN || err == unix.EINTR) && try < 64 {
			continue
		}
		return fd, err
	}
}

// walkBelow does the same with openat, one component at a time.
func (b *base) walkBelow(dirfd int, rel string) (int, error) {
	comps := strings.Split(rel, "/")
	cur := dirfd
	for i, c := range comps {
		if c == ".." {
			return -1, unix.EXDEV
		}
		fd, err := unix.Openat(cur, c, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if cur != dirfd {
			unix.Close(cur)
		}
		if err != nil {
			return -1, err
		}
		p := pin{fd: fd}
		err = p.stat()
		switch {
		case err != nil:
		case p.mnt != b.mnt || p.id.dev != b.id.dev:
			err = unix.EXDEV
		case i == len(comps)-1:
		case p.link():
			err = unix.ELOOP
		case !p.dir():
			err = unix.ENOTDIR
		}
		if err != nil {
			unix.Close(fd)
			return -1, err
		}
		cur = fd
	}
	return cur, nil
}

func (b *base) pin(rel string) (*pin, error) { return b.pinAt(b.fd, rel) }

func (b *base) pinAt(dirfd int, rel string) (*pin, error) {
	fd, err := b.openBelow(dirfd, rel)
	if err != nil {
		return nil, err
	}
	p := &pin{base: b, fd: fd}
	if err := p.stat(); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return p, nil
}

// child pins one name in a pinned directory.
func (p *pin) child(name string) (*pin, error) { return p.base.pinAt(p.fd, name) }

func (p *pin) close() { unix.Close(p.fd) }

// stat fills in what the object is now.
func (p *pin) stat() error {
	var st unix.Statx_t
	const mask = unix.STATX_BASIC_STATS | unix.STATX_BTIME | unix.STATX_MNT_ID
	if err := unix.Statx(p.fd, "", unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW, mask, &st); err != nil {
		return err
	}
	p.info = infoOf(&st)
	p.mnt = st.Mnt_id
	return nil
}

func infoOf(st *unix.Statx_t) info {
	i := info{
		id:    ident{dev: unix.Mkdev(st.Dev_major, st.Dev_minor), ino: st.Ino},
		mode:  modeOf(uint32(st.Mode)),
		size:  int64(st.Size),
		mtime: st.Mtime.Sec*1e9 + int64(st.Mtime.Nsec),
		ctime: st.Ctime.Sec*1e9 + int64(st.Ctime.Nsec),
		nlink: uint64(st.Nlink),
		uid:   st.Uid, gid: st.Gid,
	}
	if st.Mask&unix.STATX_BTIME != 0 {
		i.id.birth = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	}
	return i
}

func modeOf(m uint32) fs.FileMode {
	mode := fs.FileMode(m & 0o777)
	switch m & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		mode |= fs.ModeSocket
	default:
		mode |= fs.ModeDevice
	}
	return mode
}

// statChild describes a name in a pinned directory, without following it.
func (p *pin) statChild(name string) (info, error) {
	var st unix.Statx_t
	const mask = unix.STATX_BASIC_STATS | unix.STATX_BTIME | unix.STATX_MNT_ID
	if err := unix.Statx(p.fd, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, mask, &st); err != nil {
		return info{}, err
	}
	if st.Mnt_id != p.mnt {
		return info{}, unix.EXDEV
	}
	return infoOf(&st), nil
}

// kernelName is the host path by which the kernel knows an open object.
func kernelName(fd int) (string, error) {
	var buf [4096 + 64]byte
	n, err := unix.Readlink("/proc/self/fd/"+strconv.Itoa(fd), buf[:])
	if err != nil {
		return "", err
	}
	if n == len(buf) {
		return "", unix.ENAMETOOLONG
	}
	return string(buf[:n]), nil
}

// errDeleted means that the object lost its name between pin and check, as when
// an editor saves by rename. The caller pins again.
var errDeleted = errors.New("deleted meanwhile")

// realRel is the object's real path below the root.
func (p *pin) realRel() (string, error) {
	name, err := kernelName(p.fd)
	if err != nil {
		return "", err
	}
	if strings.HasSuffix(name, " (deleted)") && p.stat() == nil && p.nlink == 0 {
		return "", errDeleted
	}
	if name == p.base.real {
		return "", nil
	}
	rel, ok := strings.CutPrefix(name, strings.TrimSuffix(p.base.real, "/")+"/")
	if !ok {
		return "", unix.EXDEV
	}
	return rel, nil
}

// target is what a pinned symbolic link says.
func (p *pin) target() (string, error) {
	var buf [4096]byte
	n, err := unix.Readlinkat(p.fd, "", buf[:])
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// reopen opens the very object that is pinned; the caller has checked its type.
func (p *pin) reopen(flags int) (int, error) {
	for {
		fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(p.fd), flags|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

func (p *pin) open() (*file, error) {
	fd, err := p.reopen(unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return &file{fd}, nil
}

// writable reports whether the process may write in a directory or file.
func (p *pin) writable() bool {
	return unix.Faccessat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(p.fd), unix.W_OK, 0) == nil
}

func (f *file) close() { unix.Close(f.fd) }

// ReadAt implements io.ReaderAt.
func (f *file) ReadAt(b []byte, off int64) (n int, err error) {
	for n < len(b) {
		m, err := unix.Pread(f.fd, b[n:], off+int64(n))
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return n, err
		case m == 0:
			return n, io.EOF
		}
		n += m
	}
	return n, nil
}

// entries calls fn for each name in a pinned directory, in no order, until it
// returns false.
func (p *pin) entries(fn func(entry) bool) error {
	fd, err := p.reopen(unix.O_RDONLY | unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	buf := make([]byte, 32<<10)
	for {
		n, err := unix.ReadDirent(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return err
		}
		for rest := buf[:n]; len(rest) > 0; {
			// struct linux_dirent64: ino 8, off 8, reclen 2, type 1, name.
			const head = 19
			if len(rest) < head {
				return unix.EIO
			}
			size := int(binary.NativeEndian.Uint16(rest[16:]))
			if size < head || size > len(rest) {
				return unix.EIO
			}
			name, _, _ := strings.Cut(string(rest[head:size]), "\x00")
			e := entry{name: name, ino: binary.NativeEndian.Uint64(rest)}
			e.mode, e.untyped = direntMode(rest[18])
			rest = rest[size:]
			if name != "." && name != ".." && !fn(e) {
				return nil
			}
		}
	}
}

func direntMode(t byte) (mode fs.FileMode, untyped bool) {
	switch t {
	case unix.DT_REG:
	case unix.DT_DIR:
		mode = fs.ModeDir
	case unix.DT_LNK:
		mode = fs.ModeSymlink
	case unix.DT_FIFO:
		mode = fs.ModeNamedPipe
	case unix.DT_SOCK:
		mode = fs.ModeSocket
	case unix.DT_UNKNOWN:
		return 0, true
	default:
		mode = fs.ModeDevice
	}
	return mode, false
}
