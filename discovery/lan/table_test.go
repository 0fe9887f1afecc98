package lan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftmesh/weft/protocols/identity"
)

func newTable(prefer ...identity.PublicKey) *table {
	return &table{peers: map[identity.PublicKey]*entry{}, prefer: func(k identity.PublicKey) bool {
		for _, p := range prefer {
			if p == k {
				return true
			}
		}
		return false
	}}
}

func TestTable(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	k := key(t, 1)
	tb := newTable()
	if _, tell := tb.put(heard{peer: k, addrs: []string{"a"}}, now); !tell {
		t.Error("a new peer was not told")
	}
	if _, tell := tb.put(heard{peer: k, addrs: []string{"a"}}, now.Add(time.Second)); tell {
		t.Error("told twice in a second")
	}
	// syncthing#6680: two announcements merge.
	c, tell := tb.put(heard{peer: k, addrs: []string{"b"}}, now.Add(2*time.Second))
	if d := cmp.Diff([]string{"b", "a"}, c.Addrs); d != "" || !tell {
		t.Errorf("tell %v %s", tell, d)
	}
	if _, tell := tb.put(heard{peer: k, addrs: []string{"b", "a"}}, now.Add(2*time.Second+tellAgain)); !tell {
		t.Error("not told again later")
	}
	if got := tb.list(now.Add(time.Minute)); len(got) != 1 {
		t.Errorf("listed %v", got)
	}
	tb.put(heard{peer: k, goodbye: true}, now.Add(time.Minute))
	if got := tb.list(now.Add(time.Minute)); len(got) != 0 {
		t.Errorf("still listed %v", got)
	}
	tb.put(heard{peer: k, addrs: []string{"a"}}, now)
	if got := tb.list(now.Add(TTL + time.Second)); len(got) != 0 {
		t.Errorf("listed after its time: %v", got)
	}
}

// TestFloodOfMadeUpPeers: the table stays bounded, those who were there stay,
// and a preferred peer finds room.
func TestFloodOfMadeUpPeers(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	first, mine := key(t, 1), key(t, 2)
	tb := newTable(mine)
	tb.put(heard{peer: first, addrs: []string{"a"}}, now.Add(time.Second))
	told := 0
	for range 4 * maxCandidates {
		if _, tell := tb.put(heard{peer: identity.Generate().Public(), addrs: []string{"x"}}, now); tell {
			told++
		}
	}
	if len(tb.peers) != maxCandidates || told != maxCandidates-1 {
		t.Errorf("%d kept, %d told", len(tb.peers), told)
	}
	if tb.peers[first] == nil {
		t.Error("the flood pushed out a peer")
	}
	if _, tell := tb.put(heard{peer: mine, addrs: []string{"m"}}, now); !tell || len(tb.peers) != maxCandidates {
		t.Error("no room for a preferred peer")
	}
	for range maxAddrs {
		tb.put(heard{peer: mine, addrs: []string{identity.Generate().Public().String()}}, now)
	}
	if n := len(tb.peers[mine].Addrs); n != maxAddrs {
		t.Errorf("%d addresses of one peer", n)
	}
}
