//go:build unix && !linux

package files

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// base is the handle of a granted root: an os.Root, which contains every path
// below it whatever is swapped on the way.
type base struct {
	dir  *os.Root
	real string
	id   ident
}

// pin is a name below the root and what it was when it was looked at. The
// system gives no handle without opening, so open compares again.
type pin struct {
	base *base
	rel  string
	info
}

// file is an open regular file.
type file struct{ *os.File }

var errDeleted = errors.New("deleted meanwhile")

func openBase(dir string) (*base, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(real)
	if err != nil {
		return nil, err
	}
	st, err := root.Stat(".")
	if err != nil {
		root.Close()
		return nil, err
	}
	return &base{dir: root, real: real, id: infoOf(st).id}, nil
}

func (b *base) close() { b.dir.Close() }

func (b *base) moved() bool {
	st, err := os.Lstat(b.real)
	return err != nil || infoOf(st).id != b.id
}

func infoOf(st fs.FileInfo) info {
	i := info{mode: st.Mode().Type() | st.Mode().Perm(), size: st.Size(), mtime: st.ModTime().UnixNano()}
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		i.id = ident{dev: uint64(s.Dev), ino: uint64(s.Ino)}
		i.nlink, i.uid, i.gid = uint64(s.Nlink), s.Uid, s.Gid
		i.ctime = ctimeOf(s)
	}
	return i
}

// pin looks at each component, so that no link is passed; a link that is
// swapped in after can lead nowhere but below the root, and what is opened is
// compared with what was seen.
func (b *base) pin(rel string) (*pin, error) {
	p := &pin{base: b, rel: rel}
	comps := strings.Split(rel, "/")
	for i := range comps {
		name := strings.Join(comps[:i+1], "/")
		if name == "" {
			name = "."
		}
		st, err := b.dir.Lstat(name)
		if err != nil {
			return nil, err
		}
		p.info = infoOf(st)
		switch {
		case p.id.dev != b.id.dev:
			return nil, syscall.EXDEV
		case i == len(comps)-1:
		case p.link():
			return nil, syscall.ELOOP
		case !p.dir():
			return nil, syscall.ENOTDIR
		}
	}
	return p, nil
}

func (p *pin) child(name string) (*pin, error) { return p.base.pin(path.Join(p.rel, name)) }
func (p *pin) close()                          {}

func (p *pin) name() string {
	if p.rel == "" {
		return "."
	}
	return p.rel
}

func (p *pin) stat() error {
	st, err := p.base.dir.Lstat(p.name())
	if err == nil {
		p.info = infoOf(st)
	}
	return err
}

func (p *pin) statChild(name string) (info, error) {
	st, err := p.base.dir.Lstat(path.Join(p.rel, name))
	if err != nil {
		return info{}, err
	}
	return infoOf(st), nil
}

// realRel spells the path as the directories do: file systems that ignore case
// or composition take other spellings too.
func (p *pin) realRel() (string, error) {
	found := ""
	if p.rel == "" {
		return "", nil
	}
	for _, c := range strings.Split(p.rel, "/") {
		dir := pin{base: p.base, rel: found}
		name := ""
		err := dir.entries(func(e entry) bool {
			if e.name == c || name == "" && fold(e.name) == fold(c) {
				name = e.name
			}
			return name != c
		})
		if err != nil {
			return "", err
		}
		if name == "" {
			return "", errDeleted
		}
		found = path.Join(found, name)
	}
	return found, nil
}

func (p *pin) target() (string, error) { return p.base.dir.Readlink(p.name()) }

func (p *pin) openSame(flags int) (*os.File, error) {
	f, err := p.base.dir.OpenFile(p.name(), flags|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && infoOf(st).id != p.id {
		err = errDeleted
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (p *pin) open() (*file, error) {
	f, err := p.openSame(os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return &file{f}, nil
}

func (p *pin) writable() bool { return p.mode.Perm()&0o222 != 0 }

func (f *file) close() { f.Close() }

func (p *pin) entries(fn func(entry) bool) error {
	d, err := p.openSame(os.O_RDONLY)
	if err != nil {
		return err
	}
	defer d.Close()
	for {
		es, err := d.ReadDir(512)
		for _, e := range es {
			st, err := p.statChild(e.Name())
			if err != nil {
				continue
			}
			if !fn(entry{name: e.Name(), ino: st.id.ino, mode: st.mode.Type()}) {
				return nil
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (p *pin) createTemp(name string, mode fs.FileMode) (*file, error) {
	f, err := p.base.dir.OpenFile(path.Join(p.rel, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode.Perm())
	if err != nil {
		return nil, err
	}
	return &file{f}, nil
}

func (f *file) write(b []byte) error { _, err := f.Write(b); return err }

func (f *file) own(uid, gid uint32) {
	if f.Chown(int(uid), int(gid)) != nil {
		_ = f.Chown(-1, int(gid))
	}
}

func (f *file) chmod(mode fs.FileMode) error { return f.Chmod(mode.Perm()) }
func (f *file) sync() error                  { return f.Sync() }

func (p *pin) mkdir(name string) error  { return p.base.dir.Mkdir(path.Join(p.rel, name), 0o777) }
func (p *pin) unlink(name string) error { return p.base.dir.Remove(path.Join(p.rel, name)) }

func (p *pin) place(temp, name string) error {
	if err := p.base.dir.Link(path.Join(p.rel, temp), path.Join(p.rel, name)); err != nil {
		return err
	}
	return p.unlink(temp)
}

func (p *pin) exchange(a, b string) (bool, error) { return false, nil }

func (p *pin) rename(from, to string) error {
	return p.base.dir.Rename(path.Join(p.rel, from), path.Join(p.rel, to))
}

func (p *pin) syncDir() error {
	d, err := p.openSame(os.O_RDONLY)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
