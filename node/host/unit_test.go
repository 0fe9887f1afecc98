package host

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/libp2p/go-libp2p/core/peer"
	pbv2 "github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/pb"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus"
	pb "google.golang.org/protobuf/proto"

	"github.com/weftmesh/weft/protocols"
	"github.com/weftmesh/weft/protocols/identity"
)

const someID = "12D3KooWEyoppNCUx8Yx66oV9fJnriXwCcXwDDUA2kj6vnc6iDEp"

func TestPathOf(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]Path{
		"/ip4/1.2.3.4/udp/4001/quic-v1":                                      DirectQUIC,
		"/ip6/::1/tcp/4001":                                                  DirectTCP,
		"/ip4/1.2.3.4/tcp/443/tls/ws":                                        DirectTCP,
		"/ip4/1.2.3.4/udp/4001/webrtc-direct":                                WebRTC,
		"/ip4/1.2.3.4/udp/4001/quic-v1/p2p/" + someID + "/p2p-circuit":       Relay,
		"/p2p/" + someID + "/p2p-circuit":                                    Relay,
		"/ip4/1.2.3.4/tcp/4001/p2p/" + someID + "/p2p-circuit/p2p/" + someID: Relay,
	} {
		if got := pathOf(ma.StringCast(addr)); got != want {
			t.Errorf("%s: %q, want %q", addr, got, want)
		}
	}
}

func TestRankDials(t *testing.T) {
	t.Parallel()
	circuit := ma.StringCast("/ip4/9.9.9.9/udp/1/quic-v1/p2p/" + someID + "/p2p-circuit")
	lan := ma.StringCast("/ip4/192.168.1.2/tcp/4001")
	delay := map[string]time.Duration{}
	for _, r := range rankDials([]ma.Multiaddr{circuit, lan}) {
		delay[r.Addr.String()] = r.Delay
	}
	if delay[circuit.String()] < delay[lan.String()]+relayLag {
		t.Errorf("the relay competes with the LAN: %v", delay)
	}
	if r := rankDials([]ma.Multiaddr{circuit}); r[0].Delay != 0 {
		t.Errorf("a relay alone waits %v", r[0].Delay)
	}
}

func TestAdmits(t *testing.T) {
	t.Parallel()
	r := protocols.Protocol{PerPeer: 3, PerStranger: 1, Total: 5, Strangers: 2}
	for _, tc := range []struct {
		name                   string
		known                  bool
		mine, strangers, total int
		want                   bool
	}{
		{"first of a stranger", false, 0, 0, 0, true},
		{"second of a stranger", false, 1, 1, 1, false},
		{"strangers have their share", false, 0, 2, 2, false},
		{"known peer then", true, 2, 2, 4, true},
		{"known peer's own limit", true, 3, 0, 3, false},
		{"all full", true, 0, 2, 5, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := admits(r, tc.known, tc.mine, tc.strangers, tc.total); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestAdmissionCountsBack(t *testing.T) {
	t.Parallel()
	a := newAdmission(testTable)
	p := libp2pID(newKey(t).Public())
	var leaves []func()
	for range testTable[0].PerStranger {
		leave, ok := a.enter(echo, p, false)
		if !ok {
			t.Fatal("refused too early")
		}
		leaves = append(leaves, leave)
	}
	if _, ok := a.enter(echo, p, false); ok {
		t.Error("one too many")
	}
	if _, ok := a.enter("/weft/other/1", p, true); ok {
		t.Error("a protocol outside the table")
	}
	for _, leave := range leaves {
		leave()
	}
	if r := a.rows[echo]; r.total != 0 || r.strangers != 0 || len(r.peers) != 0 {
		t.Errorf("left over: %+v", r)
	}
}

func TestParseAddr(t *testing.T) {
	t.Parallel()
	key, err := identity.ParseID(someID)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ in, want string }{
		{"/ip4/1.2.3.4/tcp/1/p2p/" + someID, "/ip4/1.2.3.4/tcp/1"},
		{"/p2p/" + someID + "/p2p-circuit/p2p/" + someID, "/p2p/" + someID + "/p2p-circuit"},
		{"/ip4/1.2.3.4/tcp/1", ""},
		{"/p2p/" + someID, ""},
		{"hello", ""},
		{"", ""},
		{"/ip4/1.2.3.4/tcp/1/p2p/QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N", ""}, // RSA
		{"/ip4/1.2.3.4/tcp/1/" + strings.Repeat("x", maxAddrLen), ""},
	} {
		k, a, err := ParseAddr(tc.in)
		if (err == nil) != (tc.want != "") || a != tc.want {
			t.Errorf("%q: %q %v", tc.in, a, err)
		}
		if err == nil && k != key {
			t.Errorf("%q: key %s", tc.in, k)
		}
		if err != nil && !errors.Is(err, ErrAddress) {
			t.Errorf("%q: %v is not ErrAddress", tc.in, err)
		}
	}
}

func FuzzParseAddr(f *testing.F) {
	f.Add("/ip4/1.2.3.4/tcp/1/p2p/" + someID)
	f.Add("/p2p/" + someID + "/p2p-circuit/p2p/" + someID)
	f.Fuzz(func(t *testing.T, s string) {
		k, a, err := ParseAddr(s)
		if err != nil {
			return
		}
		k2, a2, err := ParseAddr(a + "/p2p/" + k.String())
		if err != nil || k2 != k || a2 != a {
			t.Errorf("%q became %s %q %v", s, k2, a2, err)
		}
	})
}

func TestKeyOf(t *testing.T) {
	t.Parallel()
	k := newKey(t).Public()
	p := libp2pID(k)
	if p.String() != k.String() || p.Validate() != nil {
		t.Errorf("spelled %s, want %s", p, k)
	}
	if got, err := keyOf(p); err != nil || got != k {
		t.Errorf("back: %v", err)
	}
	for _, bad := range []peer.ID{"", "x", p + "x", libp2pID(identity.PublicKey(smallRaw()))} {
		if _, err := keyOf(bad); err == nil {
			t.Errorf("took %x", string(bad))
		}
	}
}

func TestConfigRefused(t *testing.T) {
	t.Parallel()
	k := newKey(t)
	for _, tc := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"no key", Config{}, "key"},
		{"profile", Config{Key: k, Profile: "phone"}, "laptop"},
		{"bootstrap without id", Config{Key: k, Bootstrap: []string{"/ip4/1.2.3.4/tcp/1"}}, "/p2p/ID"},
		{"bootstrap nonsense", Config{Key: k, Bootstrap: []string{"1.2.3.4:4001"}}, "multiaddr"},
		{"bootstrap self", Config{Key: k, Bootstrap: []string{"/ip4/1.2.3.4/tcp/1/p2p/" + k.Public().String()}}, "this node"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := New(tc.cfg); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestListenFails(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := strings.Split(l.Addr().String(), ":")[1]
	for _, addr := range []string{"/ip4/127.0.0.1/tcp/" + port, "127.0.0.1"} {
		h, err := New(Config{Key: newKey(t), Listen: []string{addr}})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Start(within(t)); err == nil {
			t.Errorf("%s: started", addr)
			h.Close()
		}
	}
}

func TestReadReservation(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	answer := func(st pbv2.Status, expire time.Time) *pbv2.HopMessage {
		e := uint64(expire.Unix())
		return &pbv2.HopMessage{Type: pbv2.HopMessage_STATUS.Enum(), Status: st.Enum(),
			Reservation: &pbv2.Reservation{Expire: &e, Addrs: [][]byte{{1, 2}, ma.StringCast("/ip4/10.0.0.1/tcp/4001/p2p/" + someID).Bytes()}}}
	}
	for _, tc := range []struct {
		name string
		msg  *pbv2.HopMessage
		ttl  time.Duration
		skew bool
		err  string
	}{
		{"granted", answer(pbv2.Status_OK, now.Add(time.Hour)), time.Hour, false, ""},
		{"our clock is two hours ahead", answer(pbv2.Status_OK, now.Add(-time.Hour)), 2 * renewUnknown, true, ""},
		{"our clock is years behind", answer(pbv2.Status_OK, now.Add(1e5*time.Hour)), 2 * renewUnknown, true, ""},
		{"full", answer(pbv2.Status_RESERVATION_REFUSED, now), 0, false, "full"},
		{"not for us", answer(pbv2.Status_PERMISSION_DENIED, now), 0, false, "add you"},
		{"broken", answer(pbv2.Status_MALFORMED_MESSAGE, now), 0, false, "MALFORMED"},
		{"nothing in it", &pbv2.HopMessage{Type: pbv2.HopMessage_STATUS.Enum(), Status: pbv2.Status_OK.Enum()}, 0, false, "nothing"},
		{"another message", &pbv2.HopMessage{Type: pbv2.HopMessage_CONNECT.Enum()}, 0, false, "another"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := readReservation(tc.msg, now)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !r.held || r.skew != tc.skew || r.until != now.Add(tc.ttl) || r.renewAt != now.Add(tc.ttl/2) {
				t.Errorf("got %+v", r)
			}
			if len(r.addrs) != 1 || r.addrs[0].String() != "/ip4/10.0.0.1/tcp/4001" {
				t.Errorf("addresses %v", r.addrs)
			}
		})
	}
}

func FuzzReadHop(f *testing.F) {
	for _, m := range []*pbv2.HopMessage{
		{Type: pbv2.HopMessage_RESERVE.Enum()},
		{Type: pbv2.HopMessage_CONNECT.Enum(), Peer: &pbv2.Peer{Id: []byte(someID)}},
	} {
		b, err := pb.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(append([]byte{byte(len(b))}, b...))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		rd := bytes.NewReader(raw)
		got, _, err := readHop(rd)
		if err != nil {
			return
		}
		if len(got) > maxHop+10 {
			t.Errorf("%d bytes kept", len(got))
		}
		// A message is handed on with the shortest length prefix; the body
		// is as it came.
		used := len(raw) - rd.Len()
		if !bytes.HasSuffix(raw[:used], got[1:]) && !bytes.HasSuffix(raw[:used], got[2:]) {
			t.Errorf("read %x, kept %x", raw[:used], got)
		}
	})
}

// TestSameListenTwice: libp2p panics on it.
func TestSameListenTwice(t *testing.T) {
	t.Parallel()
	h := start(t, Config{Listen: []string{loopQUIC, loopQUIC, loopTCP, loopTCP}})
	if n := len(h.ListenAddrs()); n != 2 {
		t.Errorf("listens on %v", h.ListenAddrs())
	}
}

// TestSlowSubscriber (kubo#10778): who doesn't read delays nobody, and reads
// the newest state in the end.
func TestSlowSubscriber(t *testing.T) {
	t.Parallel()
	a, b := start(t, Config{}), start(t, Config{})
	if err := a.Add(b.PeerID(), b.Addrs()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	events := a.Subscribe(ctx)
	for range 20 {
		say(t, a, b.PeerID(), echo, "busy")
		for _, l := range a.links(b.id) {
			l.conn.Close()
		}
		until(t, "closed", func() bool { return len(a.links(b.id)) == 0 })
	}
	say(t, a, b.PeerID(), echo, "up")
	seen := 0
	for e := range events {
		if seen++; e.Connected && seen > 1 || seen > 3 {
			break
		}
		if e.Connected { // may be an old one that was already on its way
			cancel()
		}
	}
	if seen == 0 || seen > 3 {
		t.Errorf("%d events for one peer", seen)
	}
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	a := start(t, Config{Registerer: reg, Relay: true})
	b := start(t, Config{Registerer: reg}) // a second agent of the same node
	if err := b.Add(a.PeerID(), a.Addrs()); err != nil {
		t.Fatal(err)
	}
	say(t, b, a.PeerID(), echo, "count me")
	fams, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range fams {
		names = append(names, f.GetName())
	}
	all := strings.Join(names, " ")
	for _, want := range []string{"libp2p_swarm_connections_opened_total", "libp2p_rcmgr_connections", "libp2p_relaysvc_status"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %s in %s", want, all)
		}
	}
}

func TestServerDialsNoMadeUpPrivateAddress(t *testing.T) {
	t.Parallel()
	p := newKey(t).Public()
	made := ma.StringCast("/ip4/10.9.9.9/tcp/80")
	h, err := New(Config{Key: newKey(t), Profile: ProfileServer, Listen: []string{"/ip4/127.0.0.1/tcp/0"}})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if !privateDialOK(ProfileServer, false, false) || privateDialOK(ProfileServer, true, false) ||
		!privateDialOK(ProfileServer, true, true) || !privateDialOK(ProfileLaptop, true, false) {
		t.Error("rule for private addresses is wrong")
	}
	if err := h.Add(p, []string{made.String()}); err != nil {
		t.Fatal(err)
	}
	if !h.isGiven(libp2pID(p), made) || h.isGiven(libp2pID(p), ma.StringCast("/ip4/10.9.9.9/tcp/81")) {
		t.Error("what the owner gave is not kept apart")
	}
}

func TestUnique(t *testing.T) {
	t.Parallel()
	a, b := ma.StringCast("/ip4/1.1.1.1/tcp/1"), ma.StringCast("/ip4/1.1.1.1/tcp/2")
	var got []string
	for _, x := range unique([]ma.Multiaddr{b, a, b, a}) {
		got = append(got, x.String())
	}
	if d := cmp.Diff([]string{b.String(), a.String()}, got); d != "" {
		t.Error(d)
	}
	var many []ma.Multiaddr
	for i := range 100 {
		many = append(many, ma.StringCast("/ip4/1.1.1.1/tcp/"+string(rune('1'+i%9))+string(rune('0'+i/9%10))))
	}
	if n := len(unique(many)); n != maxAddrs {
		t.Errorf("%d kept", n)
	}
}
