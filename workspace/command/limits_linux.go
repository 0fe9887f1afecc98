package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// limit sets what bounds the sandbox's processes before the command starts.
// The rlimits must hold; the cgroup is used where one can be made.
func (b *boxed) limit(l launch) error {
	set := []struct {
		name  string
		which int
		max   uint64
	}{
		{"core size", unix.RLIMIT_CORE, 0},
		{"file size", unix.RLIMIT_FSIZE, uint64(l.limit.FileBytes)},
		{"open files", unix.RLIMIT_NOFILE, 16384},
	}
	if perNamespace() {
		set = append(set, struct {
			name  string
			which int
			max   uint64
		}{"processes", unix.RLIMIT_NPROC, uint64(l.limit.Processes)})
	}
	for _, s := range set {
		var old unix.Rlimit
		if err := unix.Prlimit(b.initID, s.which, nil, &old); err != nil {
			return fmt.Errorf("limit of %s: %w", s.name, err)
		}
		max := min(s.max, old.Max)
		if err := unix.Prlimit(b.initID, s.which, &unix.Rlimit{Cur: max, Max: max}, nil); err != nil {
			return fmt.Errorf("limit of %s: %w", s.name, err)
		}
	}
	// First in line for the kernel's OOM killer. Raising it needs no right.
	os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", b.initID), []byte("1000"), 0)
	b.cg = newCgroup(l.id, l.limit)
	b.cg.add(b.initID)
	return nil
}

// perNamespace reports whether RLIMIT_NPROC counts the processes of the user
// namespace (Linux 5.14) and not all of the user's, of which a desktop has more
// than any sensible limit.
func perNamespace() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	major, rest, _ := strings.Cut(unix.ByteSliceToString(u.Release[:]), ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, _ := strconv.Atoi(major)
	b, _ := strconv.Atoi(strings.TrimRight(minor, "-abcdefghijklmnopqrstuvwxyz+"))
	return a > 5 || a == 5 && b >= 14
}

// cgroup bounds the processes and the memory of one job where the node may
// make one: as root, whom RLIMIT_NPROC doesn't bind, and where a service
// manager delegated a subtree. The nil cgroup does nothing.
type cgroup struct{ dirs []string }

const cgroupRoot = "/sys/fs/cgroup"

func newCgroup(id string, l Limits) *cgroup {
	c := &cgroup{}
	try := func(base, pidsFile, memFile string) {
		sweep(base)
		dir := filepath.Join(base, "weft-"+id)
		if os.Mkdir(dir, 0o755) != nil {
			return
		}
		ok := false
		if pidsFile != "" {
			ok = write(filepath.Join(dir, pidsFile), int64(l.Processes))
		}
		if memFile != "" && l.MemoryBytes > 0 {
			ok = write(filepath.Join(dir, memFile), l.MemoryBytes) || ok
		}
		if !ok {
			os.Remove(dir)
			return
		}
		c.dirs = append(c.dirs, dir)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	for line := range strings.SplitSeq(strings.TrimSpace(string(own)), "\n") {
		f := strings.SplitN(line, ":", 3)
		if len(f) != 3 {
			continue
		}
		switch {
		case f[1] == "pids":
			try(filepath.Join(cgroupRoot, "pids", f[2]), "pids.max", "")
		case f[1] == "memory":
			try(filepath.Join(cgroupRoot, "memory", f[2]), "", "memory.limit_in_bytes")
		case f[0] == "0":
			// A v2 group with processes can't have children with controllers,
			// except the root; next to ours is where a sibling may be allowed.
			base := filepath.Join(cgroupRoot, f[2])
			if f[2] != "/" {
				base = filepath.Dir(base)
			}
			if has, err := os.ReadFile(filepath.Join(base, "cgroup.subtree_control")); err == nil && strings.Contains(string(has), "pids") {
				try(base, "pids.max", "memory.max")
			}
		}
	}
	if len(c.dirs) == 0 {
		return nil
	}
	return c
}

func write(path string, n int64) bool {
	return os.WriteFile(path, []byte(strconv.FormatInt(n, 10)), 0) == nil
}

func (c *cgroup) add(pid int) {
	if c == nil {
		return
	}
	for _, d := range c.dirs {
		write(filepath.Join(d, "cgroup.procs"), int64(pid))
	}
}

// remove takes the empty groups away. The job's processes are dead by now, but
// the last may not be reaped yet; what stays is swept by the next job.
func (c *cgroup) remove() {
	if c == nil {
		return
	}
	for _, d := range c.dirs {
		for range 5 {
			if err := os.Remove(d); !errors.Is(err, unix.EBUSY) {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// staleGroup is the age at which an empty group is nobody's: a job enters its
// group right after making it.
const staleGroup = time.Minute

// sweep removes groups that ended jobs and killed nodes left behind.
func sweep(base string) {
	left, err := filepath.Glob(filepath.Join(base, "weft-*"))
	if err != nil {
		return
	}
	for _, d := range left {
		if info, err := os.Stat(d); err == nil && time.Since(info.ModTime()) > staleGroup {
			os.Remove(d) // only an empty group can be removed
		}
	}
}
