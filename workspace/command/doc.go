// Package command runs the commands of a workspace session on the requester's
// machine: from an argv profile or an exact granted argv, never a shell
// string, inside an OS sandbox, as a job that can be polled and killed.
//
//	Profiles, Lookup      the table of argv profiles
//	ParseAllowed, Match   what is granted, and whether an argv is (pure)
//	Resolve               finds the tools outside every grant and pins them
//	Probe                 is there a sandbox here, and if not, how to get one
//	Runner                Run, Output, Kill, KillAll, Close
//
// # What a command sees
//
// A mount namespace built from nothing: the granted roots at /work/NAME, the
// system's /usr, /lib and a few files of /etc read-only, the toolchain the
// profile needs read-only, a private /tmp of bounded size, a private /dev and
// /proc (read-only: when the node runs as root, the command has root's uid and
// the kernel would let it write /proc/sys), and /cache, the session's own cache directory (GOCACHE and the like)
// in Config.StateDir, which no tool can reach. Its user is "weft" with uid
// 1000, its host "weft"; it has no capability, no controlling terminal, no
// network interface but a loopback of its own, no process but its own, and an
// environment of a dozen variables.
//
// What is mounted inside a root is covered by an empty directory: a grant does
// not cross devices. Denied files that exist when the command starts are masked: a file by an
// unreadable one, a directory by an empty one, both read-only. As mount points
// they can't be unlinked or renamed either (EBUSY). Every ".git" in a writable
// root, and every directory that looks like a bare repository, is bound onto
// itself read-only, since whoever can write there runs code as the owner of
// the folder the next time they type git; binding the directory itself stops
// "mv .git .g2; mkdir .git". Only git-commit, which runs no repository code,
// gets .git writable, with config, hooks, info/attributes and those of modules
// and worktrees read-only. Files that existing git configuration points at
// (core.hooksPath, include.path, core.attributesFile) are read-only too.
//
// # System calls
//
// A seccomp filter refuses what a test never needs and what kernel exploits
// and escapes do: ptrace and process_vm_*, mounts and namespaces, keyrings,
// bpf, perf, userfaultfd, io_uring, module and kexec calls, TIOCSTI, and every
// foreign system-call table. socket(AF_UNIX) is refused as well, since a socket
// file in a granted folder leads to whatever listens there (a database, a
// container engine) whatever the network namespace; socketpair, which node and
// Python use for their children, works. Config.UnixSockets allows it for
// folders whose tests listen on one; never together with AllowNet, where it
// would reach the abstract sockets of the desktop.
//
// # Bounds
//
// Wall clock (at most 600 s), four jobs at once, 16 MiB of stored output a job
// and then it is killed, file size, open files, core dumps off, processes (by
// RLIMIT_NPROC inside the user namespace, by a pids cgroup when the node runs
// as root, who is exempt from the former), bytes in /tmp and /dev/shm. There
// is no address-space limit: Go, node and the race detector reserve terabytes
// they never touch. Instead the children are first in line for the kernel's
// OOM killer, and a watch kills the job when the machine is short of memory or
// the disk of a writable root is nearly full.
//
// Everything of a job dies together: it has a PID namespace whose init is
// killed with its parent (bwrap --die-with-parent), so no double fork, setsid
// or ignored signal outlives a kill, the session or the node's own death.
//
// # Output
//
// stdout and stderr are one stream. It passes the redactor and then the path
// rewriter, both with carry over chunk boundaries, before it is stored or
// shown: host paths of roots become NAME/..., the home directory "~". Cursors
// count bytes of that stored output, so polling is idempotent and never splits
// a secret. The bytes that could still be the beginning of a secret are kept
// back until the next ones decide.
//
// # Without a sandbox
//
// Where bubblewrap or user namespaces are missing, Run refuses with
// command_not_granted and a hint, unless Config.Unsandboxed. Then a command
// runs as the node's user with the same argv checks, environment, output and
// time bounds; its process group is killed and, on Linux, every process that
// still carries the job's marker variable. Masks, mounts, network and
// system-call limits are absent: Result.Sandbox says "none" and a receipt must
// show it.
//
// # Left over
//
// bubblewrap with seccomp is the only layer; Landlock would need a helper
// program inside the sandbox and can express nothing here that the mounts
// don't. A tool is executed by its path, which only the machine's own
// administrator can write, and not by descriptor: it is compared with its pin
// (inode, size, time, then hash) before each start. Scripts and libraries a
// tool consists of beside its program are not hashed. Linked worktrees and
// submodule checkouts as roots are refused for git. With AllowNet a command
// reaches whatever the host's network does, the host's own loopback included.
// The first Go build of a session compiles the standard library, which takes
// some 10 s of two cores.
//
// History of a repository is inside the granted folder: git-read leaves denied
// paths out, but code that a code-running profile executes can read .git
// directly; only known values are redacted then. A command can create a new
// file with a denied name, a new .git or bare repository: it is reported in
// Result.CreatedDenied, not undone. A mask can't stop the rename of a parent
// directory of a masked file: the tools' own check by inode does.
package command
