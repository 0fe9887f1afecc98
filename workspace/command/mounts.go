package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/weftmesh/weft/workspace"
)

// work is where roots are mounted.
const work = "/work/"

// maxMasks bounds the mounts for denied and guarded paths. bubblewrap takes
// 9000 arguments; a mount costs it about 100 us.
const maxMasks = 2000

// etcFiles are the files of /etc that programs need and that tell nothing about
// this machine's owner; netFiles with a network only.
var (
	etcFiles = []string{"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/ssl/certs", "/etc/ssl/openssl.cnf",
		"/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted", "/etc/ca-certificates", "/etc/localtime", "/etc/mime.types", "/etc/services",
		"/etc/protocols", "/etc/python3", "/etc/magic"}
	netFiles = []string{"/etc/resolv.conf"}
)

// mounts is everything that decides a command's mount namespace.
type mounts struct {
	roots    []Mount
	state    string // Config.StateDir
	fixtures string // files that NewRunner wrote
	readOnly bool   // every root
	net      bool
	tmp      int64
	binds    []Bind              // toolchains, read-only
	denied   []DeniedPath        // of all roots
	guards   map[string][]string // root name -> git directories and targets, read-only
	gitDirs  map[string]bool     // virtual paths of git directories that stay writable
}

// args are the arguments of bubblewrap, without the command.
func (m *mounts) args() ([]string, error) {
	var a argList
	a.add("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
		"--uid", "1000", "--gid", "1000", "--hostname", "weft", "--die-with-parent", "--new-session", "--cap-drop", "ALL")
	if !m.net {
		a.add("--unshare-net")
	}
	a.system(system)
	a.add("--perms", "0755", "--dir", "/etc")
	for _, f := range []string{"passwd", "group", "hosts", "nsswitch.conf"} {
		a.add("--ro-bind", filepath.Join(m.fixtures, f), "/etc/"+f)
	}
	files := etcFiles
	if m.net {
		files = slices.Concat(etcFiles, netFiles)
	}
	for _, f := range files {
		a.add("--ro-bind-try", f, f)
	}
	size := strconv.FormatInt(m.tmp, 10)
	a.proc(filepath.Join(m.fixtures, "masked"))
	a.add("--dev", "/dev", "--size", size, "--perms", "1777", "--tmpfs", "/dev/shm", "--remount-ro", "/dev",
		"--size", size, "--perms", "1777", "--tmpfs", "/tmp", "--perms", "0755", "--dir", "/tmp/home")
	a.add("--bind", filepath.Join(m.state, "cache"), "/cache")
	for _, b := range m.binds {
		a.add("--ro-bind", b.Host, b.Inside)
	}
	a.hide(m)
	if err := a.bindRoots(m); err != nil {
		return nil, err
	}
	if err := a.guard(m); err != nil {
		return nil, err
	}
	if err := a.mask(m); err != nil {
		return nil, err
	}
	a.add("--remount-ro", "/")
	return a.list, nil
}

type argList struct {
	list  []string
	masks int
}

func (a *argList) add(words ...string) { a.list = append(a.list, words...) }

// system shows the system's directories as they are here: symlinks on merged
// systems, directories elsewhere.
func (a *argList) system(dirs []string) {
	for _, d := range dirs {
		info, err := os.Lstat(d)
		switch {
		case err != nil:
		case info.Mode()&fs.ModeSymlink != 0:
			if to, err := os.Readlink(d); err == nil {
				a.add("--symlink", to, d)
			}
		case info.IsDir():
			a.add("--ro-bind", d, d)
		}
	}
}

// procHidden are the files of /proc that tell about the machine beyond the
// sandbox to the owner of their inodes, which the command is when the node runs
// as root.
var procHidden = []string{"/proc/kcore", "/proc/keys", "/proc/key-users", "/proc/timer_list", "/proc/sched_debug", "/proc/latency_stats",
	"/proc/vmallocinfo", "/proc/slabinfo", "/proc/kpagecount", "/proc/kpageflags", "/proc/kpagecgroup", "/proc/kmsg", "/proc/kallsyms"}

// proc mounts a process table of the sandbox's own, wholly read-only. A node
// that runs as root has, in the sandbox, no capability but still the uid that
// the kernel lets write /proc/sys (core_pattern runs a program as root on the
// host) and /proc/irq; bubblewrap 0.8.0 covers those only if access(2) says
// that their directory is writable, which it isn't.
func (a *argList) proc(masked string) {
	a.add("--proc", "/proc")
	for _, f := range procHidden {
		if _, err := os.Lstat(f); err == nil {
			a.add("--ro-bind", masked, f)
		}
	}
	a.add("--remount-ro", "/proc")
}

// hide covers roots and our own state where a system directory or a toolchain
// would show them a second time, without masks.
func (a *argList) hide(m *mounts) {
	shown := slices.Clone(m.binds)
	for _, d := range system {
		if info, err := os.Lstat(d); err == nil && info.IsDir() {
			shown = append(shown, Bind{d, d})
		}
	}
	for _, s := range shown {
		for _, dir := range append([]string{m.state}, hostDirs(m.roots)...) {
			if within(dir, s.Host) {
				a.add("--tmpfs", moved(dir, s.Host, s.Inside))
			}
		}
	}
}

func hostDirs(roots []Mount) []string {
	var out []string
	for _, r := range roots {
		out = append(out, r.HostDir)
	}
	return out
}

// bindRoots mounts the roots without what is mounted inside them, and a root with fewer rights inside another once
// more at its place there: the most specific grant decides, deny wins.
func (a *argList) bindRoots(m *mounts) error {
	for _, r := range m.roots {
		a.add(bindWord(r.Writable && !m.readOnly), r.HostDir, work+r.Name)
		below, err := submounts(r.HostDir)
		if err != nil {
			return err
		}
		for _, host := range below {
			if err := a.count(); err != nil {
				return err
			}
			at := moved(host, r.HostDir, work+r.Name)
			if info, err := os.Lstat(host); err == nil && !info.IsDir() {
				a.add("--ro-bind", filepath.Join(m.fixtures, "masked"), at)
				continue
			}
			a.add("--perms", "0555", "--tmpfs", at, "--remount-ro", at)
		}
	}
	for _, outer := range m.roots {
		if !outer.Writable || m.readOnly {
			continue
		}
		for _, inner := range m.roots {
			if inner.HostDir != outer.HostDir && within(inner.HostDir, outer.HostDir) && !inner.Writable {
				a.add("--ro-bind", inner.HostDir, moved(inner.HostDir, outer.HostDir, work+outer.Name))
			}
		}
	}
	return nil
}

func bindWord(writable bool) string {
	if writable {
		return "--bind"
	}
	return "--ro-bind"
}

// guard binds git directories onto themselves.
func (a *argList) guard(m *mounts) error {
	if m.readOnly {
		return nil
	}
	for _, r := range m.roots {
		if !r.Writable {
			continue
		}
		for _, rel := range m.guards[r.Name] {
			host, at := filepath.Join(r.HostDir, filepath.FromSlash(rel)), path.Join(work+r.Name, rel)
			info, err := os.Lstat(host)
			if err != nil || info.Mode()&fs.ModeSymlink != 0 {
				continue // gone, or a link, which can't be a mount point
			}
			if err := a.count(); err != nil {
				return err
			}
			if !m.gitDirs[path.Join(r.Name, rel)] {
				a.add("--ro-bind", host, at)
				continue
			}
			a.add("--bind", host, at)
			for _, sub := range executable(host) {
				if err := a.count(); err != nil {
					return err
				}
				a.add("--ro-bind", filepath.Join(host, sub), path.Join(at, sub))
			}
		}
	}
	return nil
}

// executable lists what in a git directory decides what git executes, in it
// and in those of modules and worktrees. Only what exists is listed: git-commit,
// the one command that gets a writable git directory, creates none of it.
func executable(gitDir string) []string {
	names := []string{"config", "config.worktree", "hooks", "commondir", "gitdir", "info/attributes", "objects/info/alternates"}
	var out []string
	add := func(prefix string) {
		for _, n := range names {
			if _, err := os.Lstat(filepath.Join(gitDir, prefix, n)); err == nil {
				out = append(out, path.Join(prefix, n))
			}
		}
	}
	add("")
	for _, group := range []string{"modules", "worktrees"} {
		base := filepath.Join(gitDir, group)
		filepath.WalkDir(base, func(p string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() || d.Name() == "objects" || d.Name() == "refs" || d.Name() == "logs" {
				return skip(d, err)
			}
			if rel, err := filepath.Rel(gitDir, p); err == nil && p != base && len(out) < maxMasks {
				add(filepath.ToSlash(rel))
			}
			return nil
		})
	}
	return out
}

func skip(d fs.DirEntry, err error) error {
	if err == nil && d != nil && d.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// mask covers denied paths.
func (a *argList) mask(m *mounts) error {
	list := slices.Clone(m.denied)
	// Parents first, so that what lies below a covered directory is left out.
	sort.Slice(list, func(i, j int) bool {
		if list[i].Root != list[j].Root {
			return list[i].Root < list[j].Root
		}
		return list[i].Rel < list[j].Rel
	})
	covered := ""
	for _, d := range list {
		i := slices.IndexFunc(m.roots, func(r Mount) bool { return r.Name == d.Root })
		if i < 0 || !filepath.IsLocal(filepath.FromSlash(d.Rel)) {
			return fmt.Errorf("denied path %q of root %q is not local", d.Rel, d.Root)
		}
		virtual := path.Join(d.Root, d.Rel)
		if covered != "" && strings.HasPrefix(virtual, covered+"/") || m.inGit(virtual) {
			continue
		}
		at, dir, err := m.target(m.roots[i], d.Rel)
		if err != nil {
			return err
		}
		if at == "" {
			continue
		}
		if err := a.count(); err != nil {
			return err
		}
		if dir {
			covered = virtual
			a.add("--perms", "0555", "--tmpfs", at, "--remount-ro", at)
		} else {
			a.add("--ro-bind", filepath.Join(m.fixtures, "masked"), at)
		}
	}
	return nil
}

// inGit reports whether a path lies in a git directory that a git command
// needs whole.
func (m *mounts) inGit(virtual string) bool {
	for g := range m.gitDirs {
		if strings.HasPrefix(virtual, g+"/") {
			return true
		}
	}
	return false
}

// target is where a denied path is mounted over. A symlink can't be a mount
// point: its target is masked if it lies in a root, and is not in the sandbox
// otherwise.
func (m *mounts) target(r Mount, rel string) (at string, dir bool, err error) {
	host := filepath.Join(r.HostDir, filepath.FromSlash(rel))
	real, err := filepath.EvalSymlinks(host)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil // gone, or dangling: no placeholder is left behind
	}
	if err != nil {
		return "", false, fmt.Errorf("look at a denied path: %w", err)
	}
	info, err := os.Lstat(real)
	if err != nil {
		return "", false, fmt.Errorf("look at a denied path: %w", err)
	}
	if real == host {
		return path.Join(work+r.Name, rel), info.IsDir(), nil
	}
	for _, o := range m.roots {
		if within(real, o.HostDir) && real != o.HostDir {
			return moved(real, o.HostDir, work+o.Name), info.IsDir(), nil
		}
	}
	return "", false, nil
}

func (a *argList) count() error {
	if a.masks++; a.masks > maxMasks {
		return workspace.Refuse(workspace.CommandNotGranted,
			"more than %d protected files would have to be covered for a command; the requester can exclude their folder or narrow the grant", maxMasks)
	}
	return nil
}
