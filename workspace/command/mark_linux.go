package command

import (
	"io/fs"
	"syscall"
)

func markOf(info fs.FileInfo) mark {
	m := mark{size: info.Size(), mtime: info.ModTime().UnixNano(), mode: info.Mode()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		m.inode, m.ctime = st.Ino, st.Ctim.Nano()
	}
	return m
}
