//go:build !linux

package command

import "io/fs"

func markOf(info fs.FileInfo) mark {
	return mark{size: info.Size(), mtime: info.ModTime().UnixNano(), mode: info.Mode()}
}
