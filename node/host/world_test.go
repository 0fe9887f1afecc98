package host

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftmesh/weft/protocols"
	"github.com/weftmesh/weft/protocols/identity"
)

// The protocols of the tests: one that runs anywhere and one that needs a
// good path.
const (
	echo = "/weft/test/echo/1"
	bulk = "/weft/test/bulk/1"
)

var testTable = []protocols.Protocol{
	{ID: echo, Service: "weft.test.echo", RelayOK: true, PerPeer: 16, PerStranger: 4, Total: 64, Strangers: 8},
	{ID: bulk, Service: "weft.test.bulk", PerPeer: 16, PerStranger: 4, Total: 64, Strangers: 8},
}

// patience bounds every wait of these tests; a loaded machine is slow.
const patience = 30 * time.Second

const (
	loopQUIC = "/ip4/127.0.0.1/udp/0/quic-v1"
	loopTCP  = "/ip4/127.0.0.1/tcp/0"
)

func newKey(t testing.TB) *identity.Key {
	t.Helper()
	return identity.Generate()
}

// start runs a host on loopback that echoes on both test protocols.
func start(t testing.TB, cfg Config) *Host {
	t.Helper()
	h, err := launch(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return h
}

func launch(cfg Config) (*Host, error) {
	if cfg.Key == nil {
		cfg.Key = identity.Generate()
	}
	if cfg.Listen == nil {
		cfg.Listen = []string{loopQUIC, loopTCP}
	}
	if cfg.Protocols == nil {
		cfg.Protocols = testTable
	}
	if cfg.Heartbeat == 0 {
		cfg.Heartbeat = 500 * time.Millisecond
	}
	h, err := New(cfg)
	if err != nil {
		return nil, err
	}
	for _, p := range cfg.Protocols {
		h.Handle(p.ID, func(ctx context.Context, _ identity.PublicKey, s Stream, _ Path) {
			stop := context.AfterFunc(ctx, func() { s.Reset() })
			defer stop()
			if _, err := io.Copy(s, s); err == nil {
				s.Close()
			}
		})
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return h, h.Start(ctx)
}

// until polls a condition; it fails the test when it never holds.
func until(t testing.TB, what string, cond func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		if time.Since(begin) > patience {
			t.Fatalf("not after %v: %s", patience, what)
		}
		<-tick.C
	}
	return time.Since(begin)
}

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// say sends text over a new stream and checks that it comes back.
func say(t testing.TB, from *Host, to identity.PublicKey, protocol, text string) Path {
	t.Helper()
	s, path, err := from.Open(within(t), to, protocol)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	if err := exchange(s, text); err != nil {
		t.Fatal(err)
	}
	return path
}

func exchange(s Stream, text string) error {
	defer s.Reset()
	s.SetDeadline(time.Now().Add(patience))
	wrote := make(chan error, 1)
	go func() {
		_, err := io.WriteString(s, text)
		if err == nil {
			err = s.CloseWrite()
		}
		wrote <- err
	}()
	got, err := io.ReadAll(s)
	if err != nil {
		s.Reset() // ends the writer
	}
	if werr := <-wrote; werr != nil {
		return fmt.Errorf("write: %w", werr)
	}
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if string(got) != text {
		return fmt.Errorf("got %d bytes back of %d", len(got), len(text))
	}
	return nil
}

// works tries one exchange and says whether it succeeded.
func works(t testing.TB, from *Host, to identity.PublicKey) bool {
	ctx, cancel := context.WithTimeout(within(t), 2*time.Second)
	defer cancel()
	s, _, err := from.Open(ctx, to, echo)
	if err != nil {
		return false
	}
	s.SetDeadline(time.Now().Add(2 * time.Second))
	return exchange(s, "?") == nil
}

// people is a set of keys that an owner has added.
type people struct {
	mu   sync.Mutex
	keys map[identity.PublicKey]bool
}

func know(ks ...identity.PublicKey) *people {
	p := &people{keys: map[identity.PublicKey]bool{}}
	for _, k := range ks {
		p.keys[k] = true
	}
	return p
}

func (p *people) known(k identity.PublicKey) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keys[k]
}

// wall is a rule that a test can lower: nobody but friends can be connected
// to directly while it is up.
type wall struct {
	down    atomic.Bool
	friends *people
}

func (w *wall) allow(k identity.PublicKey, addr string, _ bool) bool {
	return w.down.Load() || w.friends.known(k) || strings.Contains(addr, "p2p-circuit")
}

// apart builds a relay and two hosts that can reach each other only by it.
func apart(t testing.TB, relay Config) (r, a, b *Host, w *wall) {
	t.Helper()
	relay.Relay = true
	r = start(t, relay)
	w = &wall{friends: know(r.PeerID())}
	a = start(t, Config{Bootstrap: r.Addrs(), Allow: w.allow})
	b = start(t, Config{Bootstrap: r.Addrs(), Allow: w.allow})
	reserved(t, a)
	reserved(t, b)
	return r, a, b, w
}

func reserved(t testing.TB, h *Host) {
	t.Helper()
	until(t, "reservation on the relay", func() bool { return len(h.Relays()) > 0 })
}

// book is a PeerBook in memory.
type book struct {
	mu sync.Mutex
	m  map[identity.PublicKey][]string
}

func newBook() *book { return &book{m: map[identity.PublicKey][]string{}} }

func (b *book) Load(k identity.PublicKey) ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.m[k], nil
}

func (b *book) Save(k identity.PublicKey, addrs []string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.m[k] = addrs
	return nil
}

// A child is a host in a process of its own, so that it can be killed.
const childEnv = "WEFT_HOST_TEST_CHILD" // SEED,BOOTSTRAP...

func runChild() {
	parts := strings.Split(os.Getenv(childEnv), ",")
	seed, err := hex.DecodeString(parts[0])
	if err != nil {
		panic(err)
	}
	key, err := identity.FromSeed(seed)
	if err != nil {
		panic(err)
	}
	h, err := launch(Config{Key: key, Bootstrap: parts[1:], Relay: len(parts) == 1})
	if err != nil {
		panic(err)
	}
	fmt.Println(strings.Join(h.Addrs(), ","))
	io.Copy(io.Discard, os.Stdin) // until killed or the parent ends
}

type child struct {
	cmd   *exec.Cmd
	addrs []string
}

// spawnChild starts a host process; without bootstrap peers it is a relay.
func spawnChild(t testing.TB, key *identity.Key, bootstrap ...string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join(append([]string{hex.EncodeToString(key.Private().Seed())}, bootstrap...), ","))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: cmd}
	t.Cleanup(func() {
		in.Close()
		c.kill()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("child said nothing: %v", err)
	}
	c.addrs = strings.Split(strings.TrimSpace(line), ",")
	return c
}

// kill is kill -9, and waits.
func (c *child) kill() {
	c.cmd.Process.Kill()
	c.cmd.Wait()
}
