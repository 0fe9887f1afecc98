package command

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Results of a seccomp filter (linux/seccomp.h).
const (
	secAllow = 0x7fff0000
	secErrno = 0x00050000
	secKill  = 0x80000000
)

// refusedCalls are the system calls that a command gets EPERM for. The list is
// that of flatpak and container engines, plus io_uring, which walks around
// filters, and userfaultfd, which makes kernel races winnable. Names that the
// architecture doesn't have are skipped.
var refusedCalls = []string{
	"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp",
	"mount", "umount", "umount2", "pivot_root", "chroot", "unshare", "setns",
	"open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr",
	"open_by_handle_at", "name_to_handle_at", "fanotify_init", "quotactl", "quotactl_fd", "acct", "swapon", "swapoff",
	"add_key", "request_key", "keyctl", "bpf", "perf_event_open", "userfaultfd", "lookup_dcookie",
	"init_module", "finit_module", "delete_module", "create_module", "get_kernel_syms", "query_module",
	"kexec_load", "kexec_file_load", "reboot", "iopl", "ioperm", "modify_ldt", "vm86", "vm86old", "uselib", "nfsservctl",
	"settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "stime", "syslog", "vhangup", "sethostname", "setdomainname",
	"move_pages", "migrate_pages",
}

// missingCalls get ENOSYS, so that callers use what they used before: the
// filter can't look into clone3's arguments, and libuv probes for io_uring.
var missingCalls = []string{"clone3", "io_uring_setup", "io_uring_enter", "io_uring_register"}

// namespaceFlags are the clone flags that make a namespace.
const namespaceFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// x32 marks the system calls of the x32 table on amd64.
const x32 = 0x40000000

// Offsets in struct seccomp_data; args are 64 bit, little endian on every
// architecture this runs on, and the kernel uses the low half of int arguments
// only, so the low half is what is compared.
const (
	offNumber = 0
	offArch   = 4
	offArg0   = 16
	offArg1   = 24
)

// seccompFilter assembles the filter as bubblewrap's --seccomp takes it.
func seccompFilter(unixSockets bool) ([]byte, error) {
	info, err := arch.GetInfo("")
	if err != nil {
		return nil, fmt.Errorf("seccomp filter: %w", err)
	}
	errno := func(e unix.Errno) bpf.Instruction { return bpf.RetConstant{Val: secErrno | uint32(e)} }
	prog := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(info.ID), SkipTrue: 1},
		bpf.RetConstant{Val: secKill},
		bpf.LoadAbsolute{Off: offNumber, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: x32, SkipTrue: 1},
		errno(unix.ENOSYS),
	}
	call := func(name string, what ...bpf.Instruction) {
		if nr, ok := info.SyscallNames[name]; ok {
			prog = append(prog, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(nr), SkipTrue: uint8(len(what))})
			prog = append(prog, what...)
		}
	}
	for _, n := range refusedCalls {
		call(n, errno(unix.EPERM))
	}
	for _, n := range missingCalls {
		call(n, errno(unix.ENOSYS))
	}
	call("clone", bpf.LoadAbsolute{Off: offArg0, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: namespaceFlags, SkipTrue: 1},
		errno(unix.EPERM), bpf.RetConstant{Val: secAllow})
	call("ioctl", bpf.LoadAbsolute{Off: offArg1, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.TIOCSTI, SkipTrue: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.TIOCLINUX, SkipTrue: 1},
		errno(unix.EPERM), bpf.RetConstant{Val: secAllow})
	// AF_UNIX leads to whatever listens in a granted folder; vsock reaches the
	// hypervisor; AF_ALG only widens what of the kernel can be reached.
	families := []uint32{unix.AF_VSOCK, unix.AF_ALG}
	if !unixSockets {
		families = append(families, unix.AF_UNIX)
	}
	what := []bpf.Instruction{bpf.LoadAbsolute{Off: offArg0, Size: 4}}
	for i, f := range families {
		what = append(what, bpf.JumpIf{Cond: bpf.JumpEqual, Val: f, SkipTrue: uint8(len(families) - i)})
	}
	call("socket", append(what, bpf.RetConstant{Val: secAllow}, errno(unix.EAFNOSUPPORT))...)
	prog = append(prog, bpf.RetConstant{Val: secAllow})
	raw, err := bpf.Assemble(prog)
	if err != nil {
		return nil, fmt.Errorf("seccomp filter: %w", err)
	}
	var out bytes.Buffer
	for _, r := range raw {
		binary.Write(&out, binary.NativeEndian, struct {
			Op     uint16
			Jt, Jf uint8
			K      uint32
		}{r.Op, r.Jt, r.Jf, r.K})
	}
	return out.Bytes(), nil
}
