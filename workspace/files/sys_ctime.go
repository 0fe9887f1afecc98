//go:build unix && !linux && !darwin && !freebsd && !netbsd

package files

import "syscall"

func ctimeOf(s *syscall.Stat_t) int64 { return s.Ctim.Nano() }
