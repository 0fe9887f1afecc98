package grant

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/protocols/signed"
	"github.com/weftmesh/weft/protocols/strict"
	"github.com/weftmesh/weft/workspace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func keyOf(t testing.TB, b byte) *identity.Key {
	t.Helper()
	seed := make([]byte, 32)
	seed[0] = b
	k, err := identity.FromSeed(seed)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

var at = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func sample(t testing.TB) (Grant, *identity.Key, *identity.Key) {
	t.Helper()
	req, prov := keyOf(t, 1), keyOf(t, 2)
	return Grant{
		V: Version, Session: "abcdefghijklmnopqrstuvwxyz", Requester: req.Public(), Provider: prov.Public(),
		Roots:    []Root{{Name: "app", Rights: workspace.Read | workspace.Write | workspace.Exec, Include: []string{"src/**"}}, {Name: "docs", Rights: workspace.Read}},
		Commands: []Command{{Profile: "go-test"}, {Argv: []string{"make", "check"}}},
		Limits:   DefaultLimits(), Task: "Fix the failing test.", Issued: at.UnixMilli(), Expires: at.Add(time.Hour).UnixMilli(),
	}, req, prov
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	g, req, prov := sample(t)
	doc, err := Sign(g, req)
	if err != nil {
		t.Fatal(err)
	}
	got, again, err := Open(doc.Raw(), prov.Public(), at)
	if err != nil {
		t.Fatal(err)
	}
	if got.Rights() != workspace.Read|workspace.Write|workspace.Exec {
		t.Errorf("rights %s", got.Rights())
	}
	if Digest(doc) != Digest(again) || len(Digest(doc)) != 64 {
		t.Errorf("digests %s and %s", Digest(doc), Digest(again))
	}
	got.Roots[0].Exclude, got.Roots[1].Include, got.Roots[1].Exclude = nil, nil, nil
	got.Commands[0].Argv = nil
	if diff := cmp.Diff(g, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if strings.Contains(string(doc.Payload()), "/home") {
		t.Error("a grant names a path of the machine")
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	g, req, prov := sample(t)
	doc, err := Sign(g, req)
	if err != nil {
		t.Fatal(err)
	}
	other, err := signed.Seal(signed.Grant, doc.Payload(), keyOf(t, 3))
	if err != nil {
		t.Fatal(err)
	}
	both, err := signed.Seal(signed.Grant, doc.Payload(), req, prov)
	if err != nil {
		t.Fatal(err)
	}
	wrongType, err := signed.Seal(signed.Receipt, doc.Payload(), req)
	if err != nil {
		t.Fatal(err)
	}
	extra, err := signed.Seal(signed.Grant, []byte(strings.Replace(string(doc.Payload()), `{"v":1`, `{"admin":true,"v":1`, 1)), req)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		raw []byte
		who identity.PublicKey
		at  time.Time
		is  error
	}{
		"for somebody else":           {doc.Raw(), keyOf(t, 3).Public(), at, ErrAddressee},
		"expired":                     {doc.Raw(), prov.Public(), at.Add(time.Hour + 2*time.Minute), ErrExpired},
		"not begun":                   {doc.Raw(), prov.Public(), at.Add(-time.Hour), ErrInvalid},
		"signed by another key":       {other.Raw(), prov.Public(), at, signed.ErrSignature},
		"signed by both":              {both.Raw(), prov.Public(), at, signed.ErrSignature},
		"a receipt":                   {wrongType.Raw(), prov.Public(), at, strict.ErrInput},
		"an unknown member":           {extra.Raw(), prov.Public(), at, strict.ErrInput},
		"not a document":              {[]byte(`{}`), prov.Public(), at, strict.ErrInput},
		"a signature of other bytes":  {[]byte(strings.Replace(string(doc.Raw()), `"sig":"`, `"sig":"A`, 1)), prov.Public(), at, signed.ErrSignature},
		"larger than any document is": {make([]byte, signed.MaxDocument+1), prov.Public(), at, strict.ErrInput},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, _, err := Open(tc.raw, tc.who, tc.at); !errors.Is(err, tc.is) {
				t.Errorf("got %v, want %v", err, tc.is)
			}
		})
	}
}

func TestSignRefuses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Grant){
		"version":                 func(g *Grant) { g.V = 2 },
		"session id":              func(g *Grant) { g.Session = "../../etc" },
		"no provider":             func(g *Grant) { g.Provider = identity.PublicKey{} },
		"a session with oneself":  func(g *Grant) { g.Provider = g.Requester },
		"another requester":       func(g *Grant) { g.Requester, g.Provider = g.Provider, g.Requester },
		"no roots":                func(g *Grant) { g.Roots = nil },
		"too many roots":          func(g *Grant) { g.Roots = make([]Root, MaxRoots+1) },
		"a root without read":     func(g *Grant) { g.Roots[0].Rights = workspace.Write },
		"a root without a name":   func(g *Grant) { g.Roots[0].Name = "" },
		"a root with a slash":     func(g *Grant) { g.Roots[0].Name = "a/b" },
		"a root named dot dot":    func(g *Grant) { g.Roots[0].Name = "a..b" },
		"two roots of one name":   func(g *Grant) { g.Roots[1].Name = "app" },
		"an empty glob":           func(g *Grant) { g.Roots[0].Include = []string{""} },
		"no limit on calls":       func(g *Grant) { g.Limits.Calls = 0 },
		"a negative limit":        func(g *Grant) { g.Limits.WriteBytes = -1 },
		"no expiry":               func(g *Grant) { g.Expires = g.Issued },
		"for ever":                func(g *Grant) { g.Expires = g.Issued + 31*24*3600*1000 },
		"a task for the terminal": func(g *Grant) { g.Task = "\x1b[2J" },
		"a task that hides words": func(g *Grant) { g.Task = "a\u202eb" },
		"a long task":             func(g *Grant) { g.Task = strings.Repeat("x", MaxTask+1) },
		"an empty command":        func(g *Grant) { g.Commands[0] = Command{} },
		"a command of both kinds": func(g *Grant) { g.Commands[0].Argv = []string{"ls"} },
		"a command with NUL":      func(g *Grant) { g.Commands[1].Argv = []string{"a\x00"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, req, _ := sample(t)
			change(&g)
			if _, err := Sign(g, req); !errors.Is(err, ErrInvalid) {
				t.Errorf("got %v, want ErrInvalid", err)
			}
		})
	}
}

func FuzzOpen(f *testing.F) {
	g, req, prov := sample(f)
	doc, err := Sign(g, req)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(doc.Raw())
	f.Add([]byte(`{"payload":"","payloadType":"","signatures":[]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, again, err := Open(raw, prov.Public(), at)
		if err != nil {
			return
		}
		if !again.SignedBy(got.Requester) || got.Provider != prov.Public() || len(got.Roots) == 0 {
			t.Fatalf("a grant that gives too much was opened: %+v", got)
		}
	})
}
