package command

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const probeTimeout = 10 * time.Second

// bwrapPlaces are where distributions install bubblewrap. PATH isn't used: it
// may name a directory inside a grant.
var bwrapPlaces = []string{"/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap", "/run/current-system/sw/bin/bwrap"}

func probe() Sandbox { return probeAt(bwrapPlaces) }

func probeAt(places []string) Sandbox {
	s := Sandbox{Kind: "none"}
	for _, p := range places {
		if real, err := filepath.EvalSymlinks(p); err == nil {
			s.path = real
			break
		}
	}
	if s.path == "" {
		s.Reason = "bubblewrap is not installed"
		s.Fix = "install the package bubblewrap (Debian, Ubuntu, Fedora, Arch: bubblewrap), or grant with unsandboxed"
		return s
	}
	out, err := tryBwrap(s.path, "--version")
	if err != nil {
		s.Reason, s.Fix = "bubblewrap does not start: "+err.Error(), "reinstall the package bubblewrap"
		return s
	}
	kind := strings.TrimSpace(out)
	_, err = tryBwrap(s.path, "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts",
		"--uid", "1000", "--gid", "1000", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
		"--ro-bind", "/", "/", "--tmpfs", "/tmp", "--proc", "/proc", "--dev", "/dev", "--", "/bin/true")
	if err != nil {
		s.Reason = "this system lets no user namespace be made: " + err.Error()
		s.Fix = "allow user namespaces (sysctl kernel.unprivileged_userns_clone=1 or user.max_user_namespaces; " +
			"on Ubuntu an AppArmor profile for bwrap or kernel.apparmor_restrict_unprivileged_userns=0), or grant with unsandboxed"
		return s
	}
	s.Available, s.Kind = true, kind
	return s
}

// tryBwrap runs bubblewrap outside every grant; the error carries its last
// line.
func tryBwrap(path string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = "/"
	cmd.Env = []string{}
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		lines := strings.Split(strings.TrimSpace(string(exit.Stderr)), "\n")
		return "", errors.New(lines[len(lines)-1])
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return "", os.ErrDeadlineExceeded
	}
	return string(out), err
}
