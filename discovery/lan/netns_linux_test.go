package lan

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"github.com/weftmesh/weft/protocols/identity"
)

// Multicast is tested on the loopback interface of a network namespace of its
// own, so that nothing reaches a real network.
const nsEnv = "WEFT_LAN_TEST_NAMESPACE"

func TestMulticast(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestInNamespace$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), nsEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	out, err := cmd.CombinedOutput()
	if _, ran := err.(*exec.ExitError); err != nil && !ran {
		t.Skipf("no network namespace of our own: %v", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// loUp brings up lo, with multicast.
func loUp(t *testing.T) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING | unix.IFF_MULTICAST | unix.IFF_LOOPBACK)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r); err != nil {
		t.Fatal(err)
	}
}

func TestInNamespace(t *testing.T) {
	if os.Getenv(nsEnv) == "" {
		t.Skip("run by TestMulticast")
	}
	alone := New(Config{Self: key(t, 9), Addrs: func() []string { return []string{"/ip4/127.0.0.1/tcp/9"} }})
	if err := alone.Start(context.Background()); err == nil {
		t.Error("started without an interface")
	}
	defer alone.Close()
	loUp(t)

	var mu sync.Mutex
	addrs := []string{"/ip4/127.0.0.1/udp/1000/quic-v1"}
	found := make(chan Candidate, 100)
	start := func(n byte, cfg Config) *Service {
		cfg.Self = key(t, n)
		if cfg.Addrs == nil {
			cfg.Addrs = func() []string { return []string{"/ip4/127.0.0.1/tcp/2000"} }
		}
		s := New(cfg)
		if err := s.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	next := func(want identity.PublicKey) Candidate {
		t.Helper()
		end := time.After(10 * time.Second)
		for {
			select {
			case c := <-found:
				if c.Peer == want {
					return c
				}
			case <-end:
				t.Fatal("not found")
			}
		}
	}
	begin := time.Now()
	a := start(1, Config{Addrs: func() []string { mu.Lock(); defer mu.Unlock(); return addrs }})
	b := start(2, Config{Found: func(c Candidate) {
		select {
		case found <- c:
		default:
		}
	}})
	c := next(key(t, 1))
	t.Logf("found after %v", time.Since(begin))
	if len(c.Addrs) != 1 || c.Addrs[0] != addrs[0] {
		t.Errorf("addresses %v", c.Addrs)
	}
	if err := a.Start(context.Background()); err == nil {
		t.Error("started twice")
	}

	// go-libp2p#1163: a change of address is told at once.
	mu.Lock()
	addrs = []string{"/ip4/127.0.0.1/udp/1001/quic-v1"}
	mu.Unlock()
	begin = time.Now()
	a.Refresh()
	for c.Addrs[0] != "/ip4/127.0.0.1/udp/1001/quic-v1" {
		c = next(key(t, 1))
	}
	t.Logf("new address known after %v", time.Since(begin))

	// A service that could not start before finds the network by Refresh.
	alone.Refresh()
	eventually(t, "who started without a network is found", func() bool { return listed(b, key(t, 9)) })

	a.Close()
	eventually(t, "a peer that said goodbye is listed no more", func() bool { return !listed(b, key(t, 1)) })

	flood(t, b) // last: it uses up what b will look at
}

func listed(s *Service, k identity.PublicKey) bool {
	for _, c := range s.Candidates() {
		if c.Peer == k {
			return true
		}
	}
	return false
}

// flood sends thousands of announcements of made-up peers.
func flood(t *testing.T, s *Service) {
	t.Helper()
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	p := ipv4.NewPacketConn(c)
	if err := errors.Join(p.SetMulticastInterface(lo), p.SetMulticastLoopback(true)); err != nil {
		t.Fatal(err)
	}
	send := func(k identity.PublicKey, to *net.UDPAddr) {
		b, err := encodeAnswer(ServiceName, "evil", k, []string{"/ip4/10.6.6.6/tcp/6"}, true, recordTTL)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.WriteTo(b, nil, to); err != nil {
			t.Fatal(err)
		}
	}
	// Unicast to the port does not count at all, multicast does.
	for range 10 {
		send(key(t, 66), &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 5353})
	}
	send(key(t, 67), group4)
	eventually(t, "multicast heard", func() bool { return listed(s, key(t, 67)) })
	if listed(s, key(t, 66)) {
		t.Error("believed a unicast packet")
	}
	for range 3000 {
		send(identity.Generate().Public(), group4)
	}
	if got := len(s.Candidates()); got > maxCandidates {
		t.Errorf("%d candidates kept", got)
	}
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	end := time.Now().Add(10 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
		<-tick.C
	}
}
