package files

import (
	"io/fs"
	"os"
	"strings"
)

// The seam to the operating system is two types, pin and file, with one
// implementation for Linux (sys_linux.go, sys_write_linux.go) and one for other Unixes
// (sys_other.go).

// info is what is known about a pinned object.
type info struct {
	id       ident
	mode     fs.FileMode // type and permission bits
	size     int64
	mtime    int64 // Unix nanoseconds
	ctime    int64
	nlink    uint64
	uid, gid uint32
}

// ident names an inode for as long as it exists. birth tells a reused inode
// number apart; it is 0 where the file system keeps no birth time.
type ident struct {
	dev, ino uint64
	birth    int64
}

// entry is one name in a directory. mode is the type bits only; untyped says
// that the directory didn't tell.
type entry struct {
	name    string
	ino     uint64
	mode    fs.FileMode
	untyped bool
}

func (i *info) regular() bool { return i.mode.IsRegular() }
func (i *info) dir() bool     { return i.mode.IsDir() }
func (i *info) link() bool    { return i.mode.Type() == fs.ModeSymlink }

// typeName is the word for an object in stat.
func typeName(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "file"
	case m.IsDir():
		return "dir"
	case m.Type() == fs.ModeSymlink:
		return "symlink"
	case m.Type() == fs.ModeNamedPipe:
		return "fifo"
	case m.Type() == fs.ModeSocket:
		return "socket"
	}
	return "device"
}

// sameOrBelow reports whether a host directory is another or lies in it.
func sameOrBelow(dir, parent string) bool {
	return dir == parent || strings.HasPrefix(dir, strings.TrimSuffix(parent, string(os.PathSeparator))+string(os.PathSeparator))
}
