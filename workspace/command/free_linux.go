package command

import (
	"bytes"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// freeDisk is the smallest number of bytes that a user may still write in one
// of the directories; very many if none can be asked.
func freeDisk(dirs []string) int64 {
	least := int64(math.MaxInt64)
	for _, d := range dirs {
		var st unix.Statfs_t
		if unix.Statfs(d, &st) == nil {
			least = min(least, int64(st.Bavail)*int64(st.Bsize))
		}
	}
	return least
}

// freeMemory is what the kernel could give out without swapping.
func freeMemory() int64 {
	raw, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return math.MaxInt64
	}
	for line := range bytes.Lines(raw) {
		if rest, ok := bytes.CutPrefix(line, []byte("MemAvailable:")); ok {
			f := bytes.Fields(rest)
			if len(f) > 0 {
				if kib, err := strconv.ParseInt(string(f[0]), 10, 64); err == nil {
					return kib << 10
				}
			}
		}
	}
	return math.MaxInt64
}

// totalMemory is the machine's memory.
func totalMemory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
}
