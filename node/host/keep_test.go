package host

import (
	"strings"
	"testing"
	"time"

	"github.com/weftmesh/weft/protocols/identity"
)

func TestKeepAndDrop(t *testing.T) {
	t.Parallel()
	a, b := start(t, Config{}), start(t, Config{})
	if err := a.Add(b.PeerID(), b.Addrs()); err != nil {
		t.Fatal(err)
	}
	connected := func() bool { _, ok := a.PathOf(b.PeerID()); return ok }
	a.Keep(b.PeerID())
	a.Keep(b.PeerID()) // no second loop
	until(t, "connected", connected)
	if !a.p2p.ConnManager().IsProtected(b.id, keepTag) {
		t.Error("wanted peer is not protected from trimming")
	}
	for range 3 {
		for _, l := range a.links(b.id) {
			l.conn.Close()
		}
		until(t, "lost", func() bool { return len(a.links(b.id)) == 0 || a.links(b.id)[0].silent() < time.Second })
		until(t, "connected again", connected)
	}
	a.Drop(b.PeerID())
	until(t, "unprotected", func() bool { return !a.p2p.ConnManager().IsProtected(b.id, keepTag) })
	for _, l := range a.links(b.id) {
		l.conn.Close()
	}
	until(t, "gone", func() bool { return !connected() })
	for _, p := range a.Peers() {
		if p.Peer == b.PeerID() {
			t.Errorf("dropped peer is still listed: %+v", p)
		}
	}
}

// TestIssue1782RelayForgotten (go-libp2p#1782, #1643): the relay restarts on
// its old address; both its clients hold reservations and reach each other
// again soon.
func TestIssue1782RelayForgotten(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	r := start(t, Config{Key: key, Relay: true})
	addrs, listen := r.Addrs(), r.ListenAddrs()
	w := &wall{friends: know(r.PeerID())}
	a := start(t, Config{Bootstrap: addrs, Allow: w.allow})
	b := start(t, Config{Bootstrap: addrs, Allow: w.allow})
	reserved(t, a)
	reserved(t, b)
	a.Keep(b.PeerID())
	until(t, "relayed", func() bool { p, ok := a.PathOf(b.PeerID()); return ok && p == Relay })
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "loss noticed", func() bool {
		_, ok := a.PathOf(b.PeerID())
		return !ok && len(a.Relays()) == 0 && len(b.Relays()) == 0
	})
	if p := a.RelayStates()[0].Problem; !strings.Contains(p, "renewing") {
		t.Errorf("status of a lost relay: %q", p)
	}
	r2 := start(t, Config{Key: key, Relay: true, Listen: listen})
	took := until(t, "reserved again", func() bool { return len(a.Relays()) > 0 && len(b.Relays()) > 0 })
	back := took + until(t, "peer back", func() bool { return works(t, a, b.PeerID()) })
	t.Logf("relay %s returned: reserved after %v, peer back after %v", r2.PeerID().AgentID()[:6], took, back)
	if back > 5*time.Second {
		t.Errorf("back after %v", back)
	}
}

// TestKilledRelay is the same with kill -9, which no FIN announces.
func TestKilledRelay(t *testing.T) {
	key := newKey(t)
	c := spawnChild(t, key)
	a := start(t, Config{Bootstrap: c.addrs})
	reserved(t, a)
	begin := time.Now()
	c.kill()
	until(t, "death noticed", func() bool { return len(a.Relays()) == 0 })
	took := time.Since(begin)
	t.Logf("kill -9 noticed after %v (heartbeat %v)", took, a.cfg.Heartbeat)
	if took > 3*a.cfg.Heartbeat+2*time.Second {
		t.Errorf("noticed after %v", took)
	}
}

// TestPeerRestarts: a wanted peer is killed and comes back with its key on
// another port. It is found through the relay, though nobody told its port.
func TestPeerRestarts(t *testing.T) {
	r := start(t, Config{Relay: true, Known: func(identity.PublicKey) bool { return true }})
	a := start(t, Config{Bootstrap: r.Addrs()})
	reserved(t, a)
	key := newKey(t)
	b := spawnChild(t, key, r.Addrs()...)
	a.Keep(key.Public())
	until(t, "first connection, direct in the end", func() bool { p, ok := a.PathOf(key.Public()); return ok && p.Direct() })
	begin := time.Now()
	b.kill()
	until(t, "death noticed", func() bool { _, ok := a.PathOf(key.Public()); return !ok })
	noticed := time.Since(begin)
	begin = time.Now()
	spawnChild(t, key, r.Addrs()...)
	up := time.Since(begin)
	until(t, "back", func() bool { return works(t, a, key.Public()) })
	back := time.Since(begin)
	until(t, "direct again", func() bool { p, ok := a.PathOf(key.Public()); return ok && p.Direct() })
	t.Logf("noticed after %v; process up %v, back %v, direct %v after its start", noticed, up, back, time.Since(begin))
	if back-up > 5*time.Second {
		t.Errorf("back %v after the peer was up", back-up)
	}
}

// TestRestartFindsPeersFromBook: everybody restarts; the only memory is ours.
func TestRestartFindsPeersFromBook(t *testing.T) {
	t.Parallel()
	b, saved, key := start(t, Config{}), newBook(), newKey(t)
	a := start(t, Config{Key: key, Saved: saved})
	if err := a.Add(b.PeerID(), b.Addrs()); err != nil {
		t.Fatal(err)
	}
	a.Keep(b.PeerID())
	until(t, "saved", func() bool { as, _ := saved.Load(b.PeerID()); return len(as) > 0 })
	a.Close()
	again := start(t, Config{Key: key, Saved: saved})
	again.Keep(b.PeerID())
	until(t, "connected from the book", func() bool { _, ok := again.PathOf(b.PeerID()); return ok })
}

// TestIssue2963QuickRestarts: one node restarts often; its slot on the relay
// is its own each time.
func TestIssue2963QuickRestarts(t *testing.T) {
	t.Parallel()
	r := start(t, Config{Relay: true})
	key := newKey(t)
	for range 20 {
		h := start(t, Config{Key: key, Bootstrap: r.Addrs(), Listen: []string{loopTCP}})
		reserved(t, h)
		h.Close()
	}
}

func TestOutage(t *testing.T) {
	t.Parallel()
	t0 := time.Unix(1000, 0)
	for _, tc := range []struct {
		name  string
		relay bool
		away  time.Duration
		want  time.Duration // before jitter
	}{
		{"just lost", false, 100 * time.Millisecond, firstRetry},
		{"ten seconds", false, 10 * time.Second, time.Second},
		{"an hour", false, time.Hour, maxRetry},
		{"relay, ten seconds", true, 10 * time.Second, time.Second},
		{"relay, an hour", true, time.Hour, maxRelayRetry},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := outage{relay: tc.relay}
			if d := o.next(t0, maxRetry); d != 0 {
				t.Errorf("first dial after %v, want at once", d)
			}
			got := o.next(t0.Add(tc.away), maxRetry)
			if got < tc.want*3/4 || got > tc.want*5/4 {
				t.Errorf("next dial after %v, want %v and a quarter either way", got, tc.want)
			}
			if p := o.patience(t0); p != 3*time.Second {
				t.Errorf("patience with a peer never seen %v", p)
			}
			o.up(t0.Add(tc.away), t0.Add(tc.away-time.Second))
			if p := o.patience(t0); p != 700*time.Millisecond {
				t.Errorf("patience with a peer just lost %v", p)
			}
			if p := o.patience(t0.Add(time.Hour)); p != dialWait {
				t.Errorf("patience in the end %v", p)
			}
			if o.since.IsZero() {
				t.Error("a connection of a second ended the outage")
			}
			o.up(t0.Add(tc.away+time.Minute), t0.Add(tc.away))
			if d := o.next(t0.Add(2*time.Hour), maxRetry); d != 0 {
				t.Errorf("a new outage starts with %v", d)
			}
		})
	}
}

func TestSlept(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name       string
		wall, mono time.Duration
		want       bool
	}{
		{"a tick", sleepPoll, sleepPoll, false},
		{"a busy machine", time.Minute, time.Minute, false},
		{"clock set by a second", sleepPoll + time.Second, sleepPoll, false},
		{"eight hours asleep", 8 * time.Hour, sleepPoll, true},
		{"clock set back", -time.Hour, sleepPoll, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := slept(tc.wall, tc.mono); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
