//go:build unix

package world

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"
)

// Config says how a node runs. The zero value is a plain node on loopback.
type Config struct {
	// Relay makes it serve as a relay.
	Relay bool
	// Bootstrap are full multiaddrs of peers to stay connected to.
	Bootstrap []string
	// Listen replaces the default listeners (QUIC and TCP on 127.0.0.1).
	Listen []string
	// Args are further flags of weft up.
	Args []string
	// Isolated puts the node into its own network namespace, from which only
	// taps lead out (see World.Tap). The test is skipped, in CI failed, where
	// that isn't possible.
	Isolated bool
	// Stopped makes the home without starting the node.
	Stopped bool
}

// Ready is the first line of weft up --json.
type Ready struct {
	Event   string   `json:"event"`
	PeerID  string   `json:"peerId"`
	AgentID string   `json:"agentId"`
	Addrs   []string `json:"addrs"`
	API     string   `json:"api"`
	Version string   `json:"version"`
}

// Node is a home with a daemon that can be taken down and brought back.
type Node struct {
	// Name names the node in messages.
	Name string
	// Home is its --home.
	Home string
	// Config may be changed while the node is down.
	Config Config
	// Ready is what the running daemon said first.
	Ready Ready
	// Started is how long the last start took until the ready line.
	Started time.Duration

	bin    string
	w      *World
	ns     *netns
	log    *output
	proc   *Process
	starts int
}

// Node makes a home and, unless told otherwise, starts its daemon.
func (w *World) Node(t testing.TB, name string, c Config) *Node {
	t.Helper()
	n := &Node{Name: name, Home: filepath.Join(w.Dir, name), Config: c, bin: Build(t, "cmd/weft"), w: w, log: newOutput()}
	// Its own HOME keeps the daemon's caches and the commands' out of the
	// caller's.
	if err := os.MkdirAll(n.userHome(), 0o700); err != nil {
		t.Fatal(err)
	}
	if c.Isolated {
		ns, err := newNetns()
		if err != nil {
			Missing(t, "a network of its own for %s: %v", name, err)
		}
		n.ns = ns
	}
	w.mu.Lock()
	w.nodes = append(w.nodes, n)
	w.mu.Unlock()
	if !c.Stopped {
		n.Up(t)
	}
	return n
}

func (n *Node) userHome() string { return filepath.Join(n.w.Dir, n.Name+"-user") }

// Env is the environment of the node's processes.
func (n *Node) Env(more ...string) []string { return n.w.Env(n.userHome(), more...) }

// Addrs are the full multiaddrs of the running node.
func (n *Node) Addrs() []string {
	var full []string
	for _, a := range n.Ready.Addrs {
		full = append(full, withPeer(a, n.Ready.PeerID))
	}
	return full
}

var hasPeer = regexp.MustCompile(`/p2p/[^/]+$`)

func withPeer(addr, id string) string {
	if hasPeer.MatchString(addr) {
		return addr
	}
	return addr + "/p2p/" + id
}

// upArgs are the arguments of weft up.
func (n *Node) upArgs() []string {
	args := []string{"--home", n.Home, "up", "--json", "--no-mdns"}
	listen := n.Config.Listen
	if len(listen) == 0 {
		listen = []string{"/ip4/127.0.0.1/udp/0/quic-v1", "/ip4/127.0.0.1/tcp/0"}
	}
	for _, a := range listen {
		args = append(args, "--listen", a)
	}
	for _, a := range n.Config.Bootstrap {
		args = append(args, "--bootstrap", a)
	}
	if n.Config.Relay {
		args = append(args, "--relay")
	}
	if os.Getenv("WEFT_E2E_DEBUG") == "1" {
		args = append(args, "--log-level", "DEBUG")
	}
	return append(args, n.Config.Args...)
}

// Up starts the daemon and waits for its ready line.
func (n *Node) Up(t testing.TB) {
	t.Helper()
	if n.Running() {
		t.Fatalf("%s is up already", n.Name)
	}
	n.starts++
	if fmt.Fprintf(n.log, "==== start %d\n", n.starts); n.starts == 1 {
		fmt.Fprintf(n.log, "%v\n", n.upArgs())
	}
	began := time.Now()
	n.proc = n.w.Start(t, Spec{Name: n.Name, Argv: append([]string{n.bin}, n.upArgs()...), Env: n.Env(), Node: n, log: n.log})
	line, ok := n.proc.Line(Patience)
	if !ok {
		n.proc.End()
		t.Fatalf("%s: no ready line; exit code %d\n%s", n.Name, n.proc.code(), n.proc.Stderr())
	}
	n.Started = time.Since(began)
	n.Ready = Ready{}
	if err := json.Unmarshal(line, &n.Ready); err != nil || n.Ready.Event != "ready" || n.Ready.PeerID == "" {
		t.Fatalf("%s: first line is not the ready line: %q (%v)", n.Name, line, err)
	}
}

// Running reports whether the daemon's process is there.
func (n *Node) Running() bool {
	if n.proc == nil {
		return false
	}
	select {
	case <-n.proc.done:
		return false
	default:
		return true
	}
}

// PID is the daemon's process id, 0 when it is down.
func (n *Node) PID() int {
	if !n.Running() {
		return 0
	}
	return n.proc.PID()
}

// Kill9 kills the daemon's process, and it alone, with SIGKILL: what it
// started must end by itself. It returns when the process is gone.
func (n *Node) Kill9(t testing.TB) {
	t.Helper()
	if !n.Running() {
		t.Fatalf("%s is not up", n.Name)
	}
	if err := n.proc.Signal(syscall.SIGKILL); err != nil {
		t.Fatalf("kill %s: %v", n.Name, err)
	}
	n.proc.Wait(t, stopPatience)
	pid := n.proc.PID()
	Until(t, Patience, "processes of the killed "+n.Name+" end", func() string {
		if left := groupMembers(pid); len(left) > 0 {
			return fmt.Sprint(left)
		}
		return ""
	})
}

// Stop takes the daemon down with SIGTERM; it must exit with 0.
func (n *Node) Stop(t testing.TB) {
	t.Helper()
	if code := n.proc.Stop(t); code != 0 {
		t.Fatalf("%s: exit code %d after SIGTERM\n%s", n.Name, code, n.proc.errs.tail())
	}
}

// Restart stops the daemon and starts it on the same home.
func (n *Node) Restart(t testing.TB) {
	t.Helper()
	n.Stop(t)
	n.Up(t)
}

var ports = regexp.MustCompile(`^/ip4/127\.0\.0\.1/(?:udp/\d+/quic-v1|tcp/\d+)`)

// PinPorts makes later starts listen where the running daemon listens, so that
// peers find it at the addresses they know.
func (n *Node) PinPorts(t testing.TB) {
	t.Helper()
	var listen []string
	for _, a := range n.Ready.Addrs {
		m := ports.FindString(a)
		if m != "" && (m == a || withPeer(m, n.Ready.PeerID) == a) {
			listen = append(listen, m)
		}
	}
	if len(listen) == 0 {
		t.Fatalf("%s: no loopback listener in %v", n.Name, n.Ready.Addrs)
	}
	n.Config.Listen = listen
}

// Log is what the daemon wrote to standard error, over all its starts.
func (n *Node) Log() string { return string(n.log.bytes()) }
