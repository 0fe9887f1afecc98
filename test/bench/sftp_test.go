//go:build linux

package bench

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/weftmesh/weft/test/e2e/world"
)

// Where distributions keep OpenSSH's servers.
var (
	sshdPlaces       = []string{"/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd"}
	sftpServerPlaces = []string{"/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/lib/ssh/sftp-server", "/usr/libexec/sftp-server"}
)

func firstFile(places []string) string {
	for _, p := range places {
		if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() {
			return p
		}
	}
	return ""
}

// remote is an sftp connection to a folder.
type remote struct {
	c   *sftp.Client
	dir string
}

// newRemote runs a private sshd. Where that can't be, why says the reason.
func newRemote(tb testing.TB, w *world.World, dir string) (r *remote, serve []int, why string) {
	tb.Helper()
	sshd, server := firstFile(sshdPlaces), firstFile(sftpServerPlaces)
	if sshd == "" || server == "" {
		return nil, nil, "no sshd with sftp-server on this machine; install openssh-server"
	}
	if os.Geteuid() == 0 { // where sshd locks its unprivileged part in; made by the system's own start script
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			return nil, nil, err.Error()
		}
	}
	me, err := user.Current()
	if err != nil {
		tb.Fatal(err)
	}
	home := filepath.Join(w.Dir, "sshd")
	hostKey, userKey := newSSHKey(tb), newSSHKey(tb)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(addr)
	config := strings.Join([]string{
		"ListenAddress 127.0.0.1", "Port " + port, "HostKey " + filepath.Join(home, "host"), "AuthorizedKeysFile " + filepath.Join(home, "user.pub"),
		"PidFile none", "UsePAM no", "StrictModes no", "PasswordAuthentication no", "PermitRootLogin yes", "Subsystem sftp " + server, "",
	}, "\n")
	if err := os.MkdirAll(home, 0o700); err != nil {
		tb.Fatal(err)
	}
	for name, body := range map[string][]byte{
		"host": hostKey.pem, "user.pub": ssh.MarshalAuthorizedKey(userKey.signer.PublicKey()), "config": []byte(config),
	} {
		if err := os.WriteFile(filepath.Join(home, name), body, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	p := w.Start(tb, world.Spec{Argv: []string{sshd, "-D", "-e", "-f", filepath.Join(home, "config")}, Env: w.Env(home)})
	var conn *ssh.Client
	world.Until(tb, world.Patience, "sshd answers", func() string {
		conn, err = ssh.Dial("tcp", addr, &ssh.ClientConfig{User: me.Username, Auth: []ssh.AuthMethod{ssh.PublicKeys(userKey.signer)},
			HostKeyCallback: ssh.FixedHostKey(hostKey.signer.PublicKey()), Timeout: 10 * time.Second})
		if err != nil {
			return err.Error() + p.Stderr()
		}
		return ""
	})
	c, err := sftp.NewClient(conn)
	if err != nil {
		tb.Fatalf("start sftp: %v\n%s", err, p.Stderr())
	}
	tb.Cleanup(func() {
		c.Close()
		conn.Close()
	})
	return &remote{c: c, dir: dir}, family(p.PID()), ""
}

type sshKey struct {
	signer ssh.Signer
	pem    []byte
}

func newSSHKey(tb testing.TB) sshKey {
	tb.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "bench")
	if err != nil {
		tb.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	return sshKey{signer, pem.EncodeToMemory(block)}
}

// reads is a read as sftp does it best: the size is known, so it is open, all
// reads at once, and close.
func (r *remote) reads(size int) func(context.Context) error {
	buf := make([]byte, size)
	return func(context.Context) error {
		f, err := r.c.Open(path.Join(r.dir, "work", readNames[size]))
		if err != nil {
			return err
		}
		if _, err := f.ReadAt(buf, 0); err != nil && err != io.EOF {
			return errors.Join(err, f.Close())
		}
		if err := f.Close(); err != nil {
			return err
		}
		return same(buf, size)
	}
}

// call does what a tool does with what sftp has: searching means to fetch and
// look here.
func (r *remote) call(_ context.Context, tool string, raw []byte) (answer, error) {
	var a struct {
		Path, Pattern string
		Edits         []struct{ Old, New string }
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		return answer{}, err
	}
	name := path.Join(r.dir, a.Path)
	var out bytes.Buffer
	switch tool {
	case "workspace_info":
		wd, err := r.c.RealPath(path.Join(r.dir, "work"))
		return answer{body: []byte(wd)}, err
	case "stat":
		st, err := r.c.Lstat(name)
		if err != nil {
			return answer{}, err
		}
		fmt.Fprintf(&out, "%s %d", st.Name(), st.Size())
	case "list_dir":
		all, err := r.c.ReadDir(name)
		if err != nil {
			return answer{}, err
		}
		for _, st := range all {
			fmt.Fprintf(&out, "%s %d\n", st.Name(), st.Size())
		}
	case "read_file":
		text, err := r.fetch(name)
		return answer{body: text}, err
	case "glob", "grep":
		return r.search(tool, name, a.Pattern)
	case "edit_file":
		text, err := r.fetch(name)
		if err != nil {
			return answer{}, err
		}
		for _, e := range a.Edits {
			if bytes.Count(text, []byte(e.Old)) != 1 {
				return answer{}, fmt.Errorf("%q is not there once", e.Old)
			}
			text = bytes.Replace(text, []byte(e.Old), []byte(e.New), 1)
			out.WriteString(e.New)
		}
		return answer{body: out.Bytes()}, r.replace(name, text)
	default:
		return answer{}, fmt.Errorf("no tool %s", tool)
	}
	return answer{body: out.Bytes()}, nil
}

func (r *remote) search(tool, dir, pattern string) (answer, error) {
	var out bytes.Buffer
	re, err := regexp.Compile(pattern)
	if tool == "grep" && err != nil {
		return answer{}, err
	}
	for w := r.c.Walk(dir); w.Step(); {
		if w.Err() != nil {
			return answer{}, w.Err()
		}
		name := w.Path()
		switch {
		case w.Stat().IsDir():
		case tool == "glob":
			if ok, _ := path.Match(path.Base(pattern), path.Base(name)); ok {
				out.WriteString(name + "\n")
			}
		default:
			text, err := r.fetch(name)
			if err != nil {
				return answer{}, err
			}
			for line := range bytes.Lines(text) {
				if re.Match(line) {
					fmt.Fprintf(&out, "%s:%s", name, line)
				}
			}
		}
	}
	return answer{body: out.Bytes()}, nil
}

// fetch reads a file whose size isn't known.
func (r *remote) fetch(name string) ([]byte, error) {
	f, err := r.c.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var b bytes.Buffer
	_, err = f.WriteTo(&b)
	return b.Bytes(), err
}

// replace puts a file in place of another, whole or not at all.
func (r *remote) replace(name string, text []byte) error {
	f, err := r.c.Create(name + ".new")
	if err != nil {
		return err
	}
	if _, err := f.Write(text); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Close(); err != nil {
		return err
	}
	return r.c.PosixRename(name+".new", name)
}
