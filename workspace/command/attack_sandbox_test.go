//go:build linux

package command

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftmesh/weft/workspace"
)

// Case 52: code of the repository sees the granted folders and nothing else of
// the machine.
func TestCase52NothingOfTheHost(t *testing.T) {
	t.Parallel()
	outside := tempDir(t)
	put(t, outside, map[string]string{"private": "outside-content"})
	b := newBox(t, map[string]string{"a": "x"})
	res := b.sh(fmt.Sprintf(`exec 2>/dev/null
		cat %[1]s/private && echo READ; ls %[1]s && echo LISTED; ls /root /home /var /mnt /srv /sys /run /boot && echo HOST; cat /etc/shadow /etc/machine-id /etc/hostname && echo HOST
		for f in /usr/x /usr/bin/x /etc/x /x /opt/x /dev/x /work/x /proc/x; do touch $f && echo "WROTE $f"; done
		for f in /etc/passwd $(find /proc/sys /proc/irq /proc/bus /proc/fs -type f) /proc/sysrq-trigger /proc/self/oom_score_adj; do (: >> $f) && echo "WROTE $f"; done
		test -n "$(head -c1 /proc/kcore)" && echo READ; dmesg && echo DMESG
		mknod /tmp/z c 1 5 && echo MKNOD; mount -t tmpfs x /tmp && echo MOUNT; unshare -r true && echo UNSHARE; unshare -Ur id && echo UNSHARE; chroot / true && echo CHROOT; nsenter -t 1 -a true && echo NSENTER
		hostname; id -un; ls /proc | grep -c '^[0-9]'`, outside))
	for _, bad := range []string{"READ", "LISTED", "HOST", "WROTE", "MKNOD", "MOUNT", "UNSHARE", "CHROOT", "NSENTER", "DMESG", "outside-content", b.dir, outside} {
		if strings.Contains(string(res.Output), bad) {
			t.Errorf("%s in\n%s", bad, res.Output)
		}
	}
	if !strings.HasPrefix(string(res.Output), "weft\nweft\n") {
		t.Errorf("host or user name:\n%s", res.Output)
	}
}

// Case 54: nothing of the node's environment is inherited, nor its open files.
func TestCase54Environment(t *testing.T) {
	t.Setenv("WEFT_TEST_TOKEN", "leak-me")
	t.Setenv("SSH_AUTH_SOCK", "/tmp/agent.sock")
	t.Setenv("LD_PRELOAD_TEST", "x")
	held, err := os.Open("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	clearCloseOnExec(t, held)
	b := newBox(t, map[string]string{"a": "x"})
	res := b.sh("env; ls /proc/self/fd | wc -l; ls -l /proc/self/fd | grep -c passwd; cat /proc/1/environ | tr '\\0' '\\n'")
	for _, bad := range []string{"leak-me", "SSH_AUTH_SOCK", "LD_PRELOAD_TEST", "SUDO", "XDG_"} {
		if strings.Contains(string(res.Output), bad) {
			t.Errorf("%s in\n%s", bad, res.Output)
		}
	}
	// 0, 1, 2 and the directory that ls itself reads.
	if !strings.Contains(string(res.Output), "\n4\n0\n") {
		t.Errorf("open files of the node were inherited:\n%s", res.Output)
	}
}

// Case 53: variables that change what a tool does can't be set.
func TestCase53EnvironmentInjection(t *testing.T) {
	t.Parallel()
	b := newBox(t, nil)
	for _, k := range []string{"GIT_EXTERNAL_DIFF", "GIT_SSH_COMMAND", "GIT_DIR", "RIPGREP_CONFIG_PATH", "GOFLAGS", "GOPROXY", "GOROOT", "NODE_OPTIONS", "PYTHONSTARTUP",
		"PYTHONPATH", "BASH_ENV", "ENV", "LD_PRELOAD", "LD_LIBRARY_PATH", "PAGER", "EDITOR", "PATH", "HOME", "IFS", "MAKEFLAGS", "npm_config_script_shell", "CARGO_HOME", "RUSTC_WRAPPER", "ci", ""} {
		_, err := b.Run(context.Background(), Request{Plan: script("true"), Root: "app", Env: map[string]string{k: "x"}})
		if err == nil || !strings.Contains(err.Error(), "DENIED bad_arguments") {
			t.Errorf("%s: %v", k, err)
		}
	}
	for _, v := range []string{"a\nb", "a\x00b", "$(x)", strings.Repeat("x", 300), "a b"} {
		if _, err := b.Run(context.Background(), Request{Plan: script("true"), Root: "app", Env: map[string]string{"CI": v}}); err == nil {
			t.Errorf("value %q allowed", v)
		}
	}
	res := b.run(Request{Plan: script("echo $CI $NO_COLOR"), Env: map[string]string{"CI": "true", "NO_COLOR": "1"}})
	if string(res.Output) != "true 1\n" {
		t.Errorf("got %q", res.Output)
	}
}

// Case 57: no network, not even to the host's loopback.
func TestCase57NoNetwork(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	b := newBox(t, nil)
	probe := fmt.Sprintf(`import socket
def tcp(h, p):
    s = socket.socket(); s.settimeout(3)
    try: s.connect((h, p)); print("CONNECTED", h)
    except OSError as e: print("no", h)
def udp(h):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try: s.sendto(b"x", (h, 53)); print("SENT", h)
    except OSError as e: print("no", h)
tcp("127.0.0.1", %d); tcp("192.0.2.1", 80); udp("192.0.2.1"); udp("198.51.100.1")
try: socket.getaddrinfo("example.com", 80); print("RESOLVED")
except OSError: print("no name")
`, port)
	b.put(map[string]string{"probe.py": probe})
	res := b.sh("python3 probe.py; cat /proc/net/dev | grep -v lo: | wc -l")
	if s := string(res.Output); strings.Contains(s, "CONNECTED") || strings.Contains(s, "SENT") || strings.Contains(s, "RESOLVED") || !strings.HasSuffix(s, "no name\n2\n") {
		t.Errorf("got\n%s", s)
	}
}

// Case 58: sockets of the machine can't be reached, even through a file in the
// root; node and Python children still get their socket pairs.
func TestCase58UnixSockets(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	path := filepath.Join(dir, "s.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	code := `import socket, sys
def go(f):
    try: f(); print("CONNECTED")
    except OSError as e: print("no")
def path():
    s = socket.socket(socket.AF_UNIX); s.connect("/work/app/s.sock")
def abstract():
    s = socket.socket(socket.AF_UNIX); s.connect("\0/tmp/.X11-unix/X0")
def trick():
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(41, ctypes.c_ulong(0x100000001), ctypes.c_ulong(1), ctypes.c_ulong(0))
    if fd < 0: raise OSError()
go(path); go(abstract); go(trick)
a, b = socket.socketpair(); a.send(b"x"); print("pair", b.recv(1))
`
	options := func(unixSockets bool) func(*Config) {
		return func(c *Config) {
			c.Roots[0].HostDir = dir
			c.UnixSockets = unixSockets
		}
	}
	put(t, dir, map[string]string{"probe.py": code})
	if res := newBox(t, nil, options(false)).sh("python3 probe.py"); string(res.Output) != "no\nno\nno\npair b'x'\n" {
		t.Errorf("got\n%s", res.Output)
	}
	// With the option the file works, the abstract name of the host still
	// doesn't: it belongs to the host's network namespace.
	if res := newBox(t, nil, options(true)).sh("python3 probe.py"); !strings.HasPrefix(string(res.Output), "CONNECTED\nno\n") {
		t.Errorf("with UnixSockets:\n%s", res.Output)
	}
}

// Case 61: no tracing, no look at other processes, no keystrokes into a
// terminal, and every other refused call.
func TestCase61SystemCalls(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"probe.py": `import ctypes, os, errno
libc = ctypes.CDLL(None, use_errno=True)
def call(name, nr, *args):
    r = libc.syscall(nr, *[ctypes.c_ulong(a) for a in args])
    print(name, errno.errorcode.get(ctypes.get_errno(), "?") if r == -1 else "ALLOWED")
call("ptrace", 101, 0, 0, 0, 0)
call("process_vm_readv", 310, 1, 0, 0, 0, 0, 0)
call("mount", 165, 0, 0, 0, 0, 0)
call("unshare", 272, 0x10000000)
call("setns", 308, 0, 0)
call("clone_newuser", 56, 0x10000000 | 17, 0, 0, 0, 0)
call("clone3", 435, 0, 0)
call("keyctl", 250, 0, 0)
call("add_key", 248, 0, 0, 0, 0)
call("bpf", 321, 0, 0, 0)
call("userfaultfd", 323, 0)
call("perf_event_open", 298, 0, 0, 0, 0, 0)
call("io_uring_setup", 425, 1, 0)
call("open_by_handle_at", 304, 0, 0, 0)
call("ioctl_tiocsti", 16, 0, 0x5412, 0)
call("ioctl_tiocsti_high", 16, 0, 0x100005412, 0)
call("x32_getpid", 0x40000000 + 39)
call("vsock", 41, 40, 1, 0)
call("packet", 41, 17, 3, 0)
call("kexec_load", 246, 0, 0, 0, 0)
call("pidfd_getfd", 438, 0, 0, 0)
call("chroot", 161, 0)
try:
    os.open("/dev/tty", os.O_RDWR); print("TTY")
except OSError: print("no tty")
print(sorted(p for p in os.listdir("/proc") if p.isdigit() and int(p) > 50))
`})
	if b.Runner.sandbox.Available && !strings.Contains(runtimeArch, "amd64") {
		t.Skip("system call numbers are those of amd64")
	}
	res := b.sh("python3 probe.py")
	want := strings.Join([]string{
		"ptrace EPERM", "process_vm_readv EPERM", "mount EPERM", "unshare EPERM", "setns EPERM", "clone_newuser EPERM", "clone3 ENOSYS",
		"keyctl EPERM", "add_key EPERM", "bpf EPERM", "userfaultfd EPERM", "perf_event_open EPERM", "io_uring_setup ENOSYS", "open_by_handle_at EPERM",
		"ioctl_tiocsti EPERM", "ioctl_tiocsti_high EPERM", "x32_getpid ENOSYS", "vsock EAFNOSUPPORT", "packet EPERM", "kexec_load EPERM", "pidfd_getfd EPERM", "chroot EPERM", "no tty", "[]", "",
	}, "\n")
	if string(res.Output) != want {
		t.Errorf("got\n%s\nwant\n%s", res.Output, want)
	}
}

// Case 55: a program inside a granted folder is never a tool, and one that
// changed is refused.
func TestCase55PathHijack(t *testing.T) {
	sandbox(t)
	dir := tempDir(t)
	put(t, dir, map[string]string{"bin/git": "#!/bin/sh\necho HIJACKED\n", "bin/go": "#!/bin/sh\necho HIJACKED\n", "bin/sh": "#!/bin/sh\necho HIJACKED\n", "tool": "#!/bin/sh\necho HIJACKED\n"})
	link := filepath.Join(tempDir(t), "git")
	if err := os.Symlink(filepath.Join(dir, "bin/git"), link); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", strings.Join([]string{filepath.Join(dir, "bin"), filepath.Dir(link), ".", "bin", os.Getenv("PATH")}, ":"))
	pins, err := Resolve(context.Background(), []Allowed{{Profile: "git-read"}, {Argv: []string{"sh", "-c", "x"}}}, []string{dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pins {
		if within(p.Path, dir) || len(p.SHA256) != 64 {
			t.Errorf("pin %+v", p)
		}
	}
	for _, name := range []string{filepath.Join(dir, "tool"), link} {
		if _, err := Resolve(context.Background(), []Allowed{{Argv: []string{name}}}, []string{dir}); err == nil || !strings.Contains(err.Error(), "inside a granted folder") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Resolve(context.Background(), []Allowed{{Argv: []string{"no-such-program-here"}}}, []string{dir}); err == nil || !strings.Contains(err.Error(), "not installed") {
		t.Errorf("missing: %v", err)
	}

	stale := pins[0]
	stale.SHA256 = strings.Repeat("0", 64)
	git(t, dir, "init", "-q")
	b := newBox(t, nil, func(c *Config) {
		c.Roots[0].HostDir, c.Allowed, c.Pins = dir, []Allowed{{Profile: "git-read"}}, []Pin{stale}
	})
	r := b.refused(workspace.CommandNotGranted, "git", "status")
	if !strings.Contains(r.Hint, "changed since it was granted") {
		t.Error(r)
	}
}

// Case 55: inside the sandbox, PATH has no directory of a root.
func TestCase55PathInside(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"ls": "#!/bin/sh\necho HIJACKED\n", "node_modules/.bin/ls": "#!/bin/sh\necho HIJACKED\n"})
	if res := b.sh("ls / > /dev/null; echo $PATH"); strings.Contains(string(res.Output), "HIJACKED") || strings.Contains(string(res.Output), "app") || strings.Contains(string(res.Output), "::") {
		t.Errorf("got %s", res.Output)
	}
}

// Case 63: without a sandbox commands are refused, with the way out, unless
// the grant says so.
func TestCase63NoSandbox(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	for _, unsandboxed := range []bool{false, true} {
		r, err := NewRunner(Config{Roots: []Mount{{Name: "app", HostDir: dir, Writable: true}}, StateDir: filepath.Join(tempDir(t), "s"),
			Allowed: []Allowed{{Argv: []string{"sh"}}}, Unsandboxed: unsandboxed})
		if err != nil {
			t.Fatal(err)
		}
		r.sandbox = probeAt([]string{"/nonexistent/bwrap"})
		res, err := r.Run(context.Background(), Request{Plan: script("pwd; echo $HOME; env | grep -c SSH_"), Root: "app", Yield: 20 * time.Second})
		if !unsandboxed {
			if err == nil || !strings.Contains(err.Error(), "DENIED command_not_granted") || !strings.Contains(err.Error(), "install the package bubblewrap") {
				t.Errorf("got %v", err)
			}
		} else if err != nil || res.Sandbox != "none" || !strings.Contains(res.Header(), "sandbox=none") || string(res.Output) != "app\n/cache/home\n0\n" {
			t.Errorf("%v %s %q", err, res.Header(), res.Output)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The roots and our own state aren't visible a second time, unmasked, below a
// system directory or a toolchain.
func TestHiddenBelowToolchain(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"x": "content"})
	m := b.mounts(false)
	m.binds = []Bind{{Host: filepath.Dir(b.dir), Inside: "/opt/tool"}, {Host: filepath.Dir(b.cfg.StateDir), Inside: "/opt/state"}}
	args, err := m.args()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"/opt/tool/" + filepath.Base(b.dir), "/opt/state/" + filepath.Base(b.cfg.StateDir)} {
		if !strings.Contains(strings.Join(args, " "), "--tmpfs "+want+" ") {
			t.Errorf("%s isn't covered in %q", want, args)
		}
	}
}

func TestStateDirMustBeOutside(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	for _, state := range []string{filepath.Join(dir, "state"), dir} {
		if _, err := NewRunner(Config{Roots: []Mount{{Name: "app", HostDir: dir}}, StateDir: state}); err == nil || !strings.Contains(err.Error(), "overlap") {
			t.Errorf("%s: %v", state, err)
		}
	}
}

// The owner's names don't appear in output.
func TestNamesAreRewritten(t *testing.T) {
	t.Parallel()
	rules := []rule{{"/work/app", "app", false}, {"/home/alice/src/app", "app", true}, {"/home/alice", "~", true}, {"alice", "weft", false}, {"laptop-7", "weft", false}}
	for in, want := range map[string]string{
		"/home/alice/src/app/main.go:3":             "app/main.go:3",
		"/home/alice/src/app":                       "app",
		"/home/alice/src/app-evil/x":                "~/src/app-evil/x",
		"/home/alice/.cache":                        "~/.cache",
		"/home/alicent/x":                           "/home/alicent/x",
		"-I/home/alice/src/app/include":             "-Iapp/include",
		"alice@laptop-7:~$":                         "weft@weft:~$",
		"malice in palice alice":                    "malice in palice weft",
		"/work/app/x /work/app /work/application":   "app/x app /work/application",
		"src/work/app":                              "src/work/app",
		"file:///home/alice/src/app/a":              "file://app/a",
		"/home/alice/src/ap":                        "~/src/ap",
		"":                                          "",
		"/home/ali":                                 "/home/ali",
		"see /home/alice/src/app/a and /work/app/b": "see app/a and app/b",
	} {
		for size := 1; size <= len(in)+1; size++ {
			w := newRewriter(rules)
			var out []byte
			for rest := []byte(in); len(rest) > 0; {
				n := min(size, len(rest))
				out = append(out, w.write(rest[:n], false)...)
				rest = rest[n:]
			}
			if out = append(out, w.write(nil, true)...); string(out) != want {
				t.Errorf("%q in chunks of %d: %q, want %q", in, size, out, want)
			}
		}
	}
	b := newBox(t, nil)
	res := b.sh("pwd; ls /work; df . | tail -1; cat /proc/self/mountinfo; uname -n")
	if strings.Contains(string(res.Output), b.dir) || strings.Contains(string(res.Output), b.cfg.StateDir) {
		t.Errorf("host path in\n%s", res.Output)
	}
	if u, err := user.Current(); err == nil && hides(u.Username) && strings.Contains(string(res.Output), u.Username) {
		t.Errorf("user name in\n%s", res.Output)
	}
}
