package lan

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/weftmesh/weft/protocols/identity"
)

func key(t testing.TB, n byte) identity.PublicKey {
	t.Helper()
	k, err := identity.FromSeed(bytes.Repeat([]byte{n}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return k.Public()
}

func TestAnswerRoundTrip(t *testing.T) {
	t.Parallel()
	k := key(t, 1)
	addrs := []string{"/ip4/192.168.1.7/udp/4001/quic-v1", "/ip6/fd00::7/tcp/4001"}
	for _, tc := range []struct {
		name string
		ttl  uint32
	}{{"announcement", recordTTL}, {"goodbye", 0}} {
		t.Run(tc.name, func(t *testing.T) {
			b, err := encodeAnswer(ServiceName, "name", k, addrs, false, tc.ttl)
			if err != nil {
				t.Fatal(err)
			}
			m, err := decode(b, ServiceName, false)
			if err != nil {
				t.Fatal(err)
			}
			want := []heard{{peer: k, addrs: addrs, goodbye: tc.ttl == 0}}
			if d := cmp.Diff(want, m.answers, cmp.AllowUnexported(heard{})); d != "" || m.ask {
				t.Errorf("ask %v, answers %s", m.ask, d)
			}
		})
	}
}

func TestQuestion(t *testing.T) {
	t.Parallel()
	q, err := encodeQuestion(ServiceName)
	if err != nil {
		t.Fatal(err)
	}
	for service, want := range map[string]bool{ServiceName: true, "_WEFT._udp": true, "_p2p._udp": false} {
		if m, err := decode(q, service, false); err != nil || m.ask != want {
			t.Errorf("%s: asks %v, %v", service, m.ask, err)
		}
	}
}

func TestAnswerFitsOneFrame(t *testing.T) {
	t.Parallel()
	var addrs []string
	for i := range 200 {
		addrs = append(addrs, fmt.Sprintf("/ip6/fd00:1234:5678:9abc:def0:1234:5678:%x/udp/40001/quic-v1", i+1))
	}
	b, err := encodeAnswer(ServiceName, strings.Repeat("n", 32), key(t, 1), addrs, false, recordTTL)
	if err != nil || len(b) > sendPacket {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	m, err := decode(b, ServiceName, false)
	if err != nil || len(m.answers) != 1 || len(m.answers[0].addrs) < 4 || m.answers[0].addrs[0] != addrs[0] {
		t.Errorf("got %+v, %v", m.answers, err)
	}
	if _, err := encodeAnswer(ServiceName, "n", key(t, 1), []string{"/ip4/127.0.0.1/tcp/1"}, false, 1); err == nil {
		t.Error("announced loopback to the network")
	}
}

// packWith builds a response with these TXT strings.
func packWith(t testing.TB, txt ...string) []byte {
	t.Helper()
	name := dnsmessage.MustNewName("x." + ServiceName + ".local.")
	m := dnsmessage.Message{Header: dnsmessage.Header{Response: true}}
	for _, s := range txt {
		m.Additionals = append(m.Additionals, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: name, Type: dnsmessage.TypeTXT, Class: dnsmessage.ClassINET, TTL: 1},
			Body:   &dnsmessage.TXTResource{TXT: []string{s}},
		})
	}
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	id := "/p2p/" + key(t, 1).String()
	for _, tc := range []struct {
		name, txt string
		loopback  bool
		want      string
	}{
		{"plain", "dnsaddr=/ip4/10.0.0.1/tcp/1" + id, false, "/ip4/10.0.0.1/tcp/1"},
		{"loopback from the network", "dnsaddr=/ip4/127.0.0.1/tcp/1" + id, false, ""},
		{"loopback from loopback", "dnsaddr=/ip4/127.0.0.1/tcp/1" + id, true, "/ip4/127.0.0.1/tcp/1"},
		{"name to resolve", "dnsaddr=/dns4/example.com/tcp/1" + id, false, ""},
		{"through a relay", "dnsaddr=/ip4/10.0.0.1/tcp/1" + id + "/p2p-circuit" + id, false, ""},
		{"multicast", "dnsaddr=/ip4/224.0.0.1/udp/1/quic-v1" + id, false, ""},
		{"broadcast", "dnsaddr=/ip4/255.255.255.255/udp/1/quic-v1" + id, false, ""},
		{"unspecified", "dnsaddr=/ip4/0.0.0.0/tcp/1" + id, false, ""},
		{"other transport", "dnsaddr=/ip4/10.0.0.1/tcp/1/ws" + id, false, ""},
		{"no key", "dnsaddr=/ip4/10.0.0.1/tcp/1", false, ""},
		{"key of small order", "dnsaddr=/ip4/10.0.0.1/tcp/1/p2p/" + identity.PublicKey{1}.String(), false, ""},
		{"no prefix", "/ip4/10.0.0.1/tcp/1" + id, false, ""},
		{"nonsense", "dnsaddr=\xff\xfe", false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, err := decode(packWith(t, tc.txt), ServiceName, tc.loopback)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if len(m.answers) > 0 {
				got = m.answers[0].addrs[0]
			}
			if got != tc.want {
				t.Errorf("believed %q, want %q", got, tc.want)
			}
		})
	}
	var many []string
	for i := range maxRecords + 1 {
		many = append(many, fmt.Sprintf("dnsaddr=/ip4/10.0.0.1/tcp/%d%s", i+1, id))
	}
	if m, err := decode(packWith(t, many...), ServiceName, false); err == nil {
		t.Errorf("took %d records", len(m.answers))
	}
	m, err := decode(packWith(t, many[:40]...), ServiceName, false)
	if err != nil || len(m.answers) != 1 || len(m.answers[0].addrs) != maxAddrs {
		t.Errorf("%d answers, %v", len(m.answers), err)
	}
	if _, err := decode(make([]byte, maxPacket+1), ServiceName, false); err == nil {
		t.Error("took a packet above the limit")
	}
}

func FuzzDecode(f *testing.F) {
	k := key(f, 1)
	a, err := encodeAnswer(ServiceName, "name", k, []string{"/ip4/192.168.1.7/udp/4001/quic-v1"}, false, recordTTL)
	if err != nil {
		f.Fatal(err)
	}
	q, err := encodeQuestion(ServiceName)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(a)
	f.Add(q)
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := decode(raw, ServiceName, false)
		if err != nil {
			return
		}
		if len(m.answers) > maxAddrs {
			t.Errorf("%d peers of one packet", len(m.answers))
		}
		for _, h := range m.answers {
			if len(h.addrs) == 0 || len(h.addrs) > maxAddrs {
				t.Errorf("%d addresses", len(h.addrs))
			}
			for _, s := range h.addrs {
				if _, back, err := parse(s+"/p2p/"+h.peer.String(), false); err != nil || back != s {
					t.Errorf("kept %q, which reads as %q, %v", s, back, err)
				}
			}
		}
	})
}
