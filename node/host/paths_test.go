package host

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftmesh/weft/protocols/identity"
)

func TestDirect(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		listen string
		want   Path
	}{{loopQUIC, DirectQUIC}, {loopTCP, DirectTCP}} {
		t.Run(string(tc.want), func(t *testing.T) {
			t.Parallel()
			a := start(t, Config{})
			b := start(t, Config{Listen: []string{tc.listen}})
			if err := a.Add(b.PeerID(), b.Addrs()); err != nil {
				t.Fatal(err)
			}
			if got := say(t, a, b.PeerID(), echo, "hello"); got != tc.want {
				t.Errorf("path %q, want %q", got, tc.want)
			}
			rtt, path, err := a.Ping(within(t), b.PeerID())
			if err != nil || rtt <= 0 || path != tc.want {
				t.Errorf("ping: %v %q %v", rtt, path, err)
			}
			// The other side dials nothing: it has a connection.
			if got := say(t, b, a.PeerID(), bulk, "back"); got != tc.want {
				t.Errorf("path back %q, want %q", got, tc.want)
			}
			until(t, "bytes counted", func() bool {
				for _, p := range a.Peers() {
					if p.Peer == b.PeerID() {
						return p.Connected && p.Path == tc.want && p.BytesIn == 9 && p.BytesOut == 9 && p.RTT > 0
					}
				}
				return false
			})
		})
	}
}

func TestRelayOfKnownPeers(t *testing.T) {
	t.Parallel()
	_, a, b, _ := apart(t, Config{Known: func(identity.PublicKey) bool { return true }})
	if got := say(t, a, b.PeerID(), echo, "through"); got != Relay {
		t.Fatalf("path %q", got)
	}
	// No limit: bulk is allowed, and far more than libp2p's 128 KiB passes.
	if got := say(t, a, b.PeerID(), bulk, strings.Repeat("x", 1<<20)); got != Relay {
		t.Fatalf("path %q", got)
	}
	if _, path, err := a.Ping(within(t), b.PeerID()); err != nil || path != Relay {
		t.Fatalf("ping: %q %v", path, err)
	}
	if p, ok := b.PathOf(a.PeerID()); !ok || p != Relay {
		t.Fatalf("b sees %q %v", p, ok)
	}
	if !strings.Contains(strings.Join(b.Addrs(), " "), "/p2p-circuit") {
		t.Errorf("a private relay is not announced: %v", b.Addrs())
	}
}

// TestIssue3361PrivateRelayAddressDialled: a third host that knows nothing but
// the announced circuit address reaches the peer.
func TestIssue3361PrivateRelayAddressDialled(t *testing.T) {
	t.Parallel()
	_, _, b, w := apart(t, Config{})
	c := start(t, Config{Allow: w.allow})
	var circuits []string
	for _, a := range b.Addrs() {
		if strings.Contains(a, "p2p-circuit") {
			circuits = append(circuits, a)
		}
	}
	if err := c.Add(b.PeerID(), circuits); err != nil {
		t.Fatal(err)
	}
	if got := say(t, c, b.PeerID(), echo, "hi"); got != Relay {
		t.Errorf("path %q", got)
	}
}

func TestLimitedRelay(t *testing.T) {
	t.Parallel()
	_, a, b, _ := apart(t, Config{}) // the relay knows nobody
	if got := say(t, a, b.PeerID(), echo, "small"); got != Relay {
		t.Fatalf("path %q", got)
	}
	ps := a.Peers()
	for _, p := range ps {
		if p.Peer == b.PeerID() && !p.Limited {
			t.Error("path of strangers is not shown as limited")
		}
	}
	begin := time.Now()
	_, _, err := a.Open(within(t), b.PeerID(), bulk)
	if !errors.Is(err, ErrNeedsDirect) || time.Since(begin) > directWait+time.Second {
		t.Errorf("bulk on a limited path: %v after %v", err, time.Since(begin))
	}
	if err != nil && !strings.Contains(err.Error(), "weft peer add") {
		t.Errorf("no next step in %q", err)
	}
	s, _, err := a.Open(within(t), b.PeerID(), echo)
	if err != nil {
		t.Fatal(err)
	}
	if err := exchange(s, strings.Repeat("x", 1<<20)); err == nil {
		t.Error("a stranger's circuit carried 1 MiB")
	}
}

// TestLimitsFollowTheCaller: a known peer's circuit to a stranger is without
// limits; the stranger's circuit to the known peer has them.
func TestLimitsFollowTheCaller(t *testing.T) {
	t.Parallel()
	member := newKey(t)
	for _, tc := range []struct {
		name       string
		memberAsks bool
		limited    bool
	}{{"known to stranger", true, false}, {"stranger to known", false, true}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := start(t, Config{Relay: true, Known: know(member.Public()).known})
			w := &wall{friends: know(r.PeerID())}
			m := start(t, Config{Key: member, Bootstrap: r.Addrs(), Allow: w.allow})
			s := start(t, Config{Bootstrap: r.Addrs(), Allow: w.allow})
			reserved(t, m)
			reserved(t, s)
			from, to := s, m
			if tc.memberAsks {
				from, to = m, s
			}
			say(t, from, to.PeerID(), echo, "hi")
			if e, _ := from.eventOf(to.id); e.Limited != tc.limited || e.Path != Relay {
				t.Errorf("path %+v, want limited %v", e, tc.limited)
			}
		})
	}
}

// TestTwinRelayedConnections: both sides dial each other through the relay at
// the same time, all the while opening streams. One connection stays and no
// stream fails.
func TestTwinRelayedConnections(t *testing.T) {
	t.Parallel()
	_, a, b, _ := apart(t, Config{Known: func(identity.PublicKey) bool { return true }})
	twins := 0
	for range 6 {
		var wg sync.WaitGroup
		for _, x := range [][2]*Host{{a, b}, {b, a}} {
			wg.Go(func() {
				if err := x[0].dial(within(t), x[1].id); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if len(a.links(b.id)) > 1 {
			twins++
		}
		for range 3 {
			say(t, a, b.PeerID(), echo, "one")
			say(t, b, a.PeerID(), echo, "two")
		}
		until(t, "one connection", func() bool { return len(a.links(b.id)) == 1 && len(b.links(a.id)) == 1 })
		for _, l := range a.links(b.id) {
			l.conn.Close()
		}
		until(t, "closed", func() bool { return len(a.links(b.id)) == 0 && len(b.links(a.id)) == 0 })
	}
	t.Logf("%d twins seen in 6 rounds", twins)
}

func TestRelayThenDirect(t *testing.T) {
	t.Parallel()
	_, a, b, w := apart(t, Config{})
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	events := a.Subscribe(ctx)
	next := func() Event {
		for {
			select {
			case e, ok := <-events:
				if !ok {
					t.Fatal("events ended")
				}
				if e.Peer == b.PeerID() {
					return e
				}
			case <-ctx.Done():
				t.Fatal("no event")
			}
		}
	}
	a.Keep(b.PeerID())
	if e := next(); e.Path != Relay || !e.Connected {
		t.Fatalf("first event %+v", e)
	}
	s, path, err := a.Open(ctx, b.PeerID(), echo)
	if err != nil || path != Relay {
		t.Fatalf("open: %q %v", path, err)
	}
	w.down.Store(true)
	a.networkChanged()
	if e := next(); !e.Path.Direct() || e.Limited {
		t.Fatalf("second event %+v", e)
	}
	if got := say(t, a, b.PeerID(), bulk, "now directly"); !got.Direct() {
		t.Errorf("new stream on %q", got)
	}
	// The old stream has not moved and still works.
	if err := exchange(s, "still here"); err != nil {
		t.Errorf("stream over the relay: %v", err)
	}
}

func TestOpenFails(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	hole, err := net.ListenPacket("udp4", "127.0.0.1:0") // takes packets, never answers
	if err != nil {
		t.Fatal(err)
	}
	defer hole.Close()
	mute := newKey(t).Public()
	addr := "/ip4/127.0.0.1/udp/" + strings.Split(hole.LocalAddr().String(), ":")[1] + "/quic-v1"
	if err := a.Add(mute, []string{addr}); err != nil {
		t.Fatal(err)
	}
	other := start(t, Config{Protocols: testTable[:1], Listen: []string{loopTCP}})
	if err := a.Add(other.PeerID(), other.Addrs()); err != nil {
		t.Fatal(err)
	}
	closed := start(t, Config{})
	closed.Close()
	for _, tc := range []struct {
		name     string
		from     *Host
		to       identity.PublicKey
		protocol string
		want     error
		most     time.Duration
	}{
		{"no address", a, newKey(t).Public(), echo, ErrUnreachable, time.Second},
		{"never answers", a, mute, echo, ErrUnreachable, openWait + time.Second},
		{"not in the table", a, mute, "/weft/nothing/1", ErrProtocol, time.Second},
		{"itself", a, a.PeerID(), echo, ErrSelf, time.Second},
		{"closed", closed, mute, echo, ErrClosed, time.Second},
		{"other protocols", a, other.PeerID(), bulk, ErrUnsupported, 5 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			begin := time.Now()
			s, _, err := tc.from.Open(context.Background(), tc.to, tc.protocol)
			if !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if s != nil {
				t.Error("a stream came with the error")
			}
			if d := time.Since(begin); d > tc.most {
				t.Errorf("took %v, at most %v", d, tc.most)
			}
			if errors.Is(err, ErrUnreachable) && !strings.Contains(err.Error(), "weft peer add") {
				t.Errorf("no next step in %q", err)
			}
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := a.Open(ctx, mute, echo); err == nil {
		t.Error("open with an ended context succeeded")
	}
}

// TestFailedDialsLeakNothing: syncthing#5767, bee#2399.
func TestFailedDialsLeakNothing(t *testing.T) {
	const fds = "/proc/self/fd"
	if _, err := os.ReadDir(fds); err != nil {
		t.Skip("no /proc here")
	}
	a := start(t, Config{})
	dead := newKey(t).Public()
	if err := a.Add(dead, []string{"/ip4/127.0.0.1/tcp/1", "/ip4/127.0.0.1/udp/1/quic-v1"}); err != nil {
		t.Fatal(err)
	}
	dial := func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		if _, _, err := a.Open(ctx, dead, echo); err == nil {
			t.Fatal("dialled nobody")
		}
	}
	count := func() int {
		d, err := os.ReadDir(fds)
		if err != nil {
			t.Fatal(err)
		}
		return len(d)
	}
	for range 5 {
		dial()
	}
	before := count()
	for range 100 {
		dial()
	}
	until(t, "file descriptors given back", func() bool { return count() <= before+3 })
}

func TestStreamCloseDeliversLastBytes(t *testing.T) {
	t.Parallel()
	const words = "the last words"
	h, err := New(Config{Key: newKey(t), Listen: []string{loopQUIC}, Protocols: testTable})
	if err != nil {
		t.Fatal(err)
	}
	h.Handle(echo, func(_ context.Context, _ identity.PublicKey, s Stream, _ Path) {
		io.WriteString(s, words)
		s.Close()
	})
	h.Handle(bulk, func(_ context.Context, _ identity.PublicKey, s Stream, _ Path) {
		io.WriteString(s, words) // returns without closing: reset
	})
	if err := h.Start(within(t)); err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	a := start(t, Config{})
	if err := a.Add(h.PeerID(), h.Addrs()); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		protocol string
		whole    bool
	}{{echo, true}, {bulk, false}} {
		s, _, err := a.Open(within(t), h.PeerID(), tc.protocol)
		if err != nil {
			t.Fatal(err)
		}
		s.SetDeadline(time.Now().Add(patience))
		s.Write([]byte{1})
		got, err := io.ReadAll(s)
		if (err == nil) != tc.whole || tc.whole && string(got) != words {
			t.Errorf("%s: %q %v", tc.protocol, got, err)
		}
		s.Reset()
	}
}
