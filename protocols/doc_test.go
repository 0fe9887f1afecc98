package protocols_test

import (
	"regexp"
	"testing"

	"github.com/weftmesh/weft/protocols"
	"github.com/weftmesh/weft/protocols/offer"
	"github.com/weftmesh/weft/protocols/session"
)

func TestTable(t *testing.T) {
	t.Parallel()
	grammar := regexp.MustCompile(`^/weft/[a-z-]+/[0-9]+$`)
	seen := map[string]bool{}
	for _, p := range protocols.All() {
		if !grammar.MatchString(p.ID) || p.Service == "" || seen[p.ID] {
			t.Errorf("%+v: bad or repeated id, or no service", p)
		}
		seen[p.ID] = true
		if p.Strangers >= p.Total || p.PerStranger > p.PerPeer || p.PerStranger > p.Strangers || p.PerPeer > p.Total {
			t.Errorf("%s: strangers could take what known peers need: %+v", p.ID, p)
		}
		if got, ok := protocols.Lookup(p.ID); !ok || got != p {
			t.Errorf("lookup of %s: %+v", p.ID, got)
		}
	}
	for _, id := range []string{session.Protocol, offer.Protocol} {
		if !seen[id] {
			t.Errorf("%s is spoken but not in the table", id)
		}
	}
	if _, ok := protocols.Lookup("/weft/nothing/1"); ok {
		t.Error("found what is not there")
	}
}
