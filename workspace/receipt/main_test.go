package receipt

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/store"
	"github.com/weftmesh/weft/workspace/sessionlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testSession = "mfrggzdfmztwq2lknnwg23tpoa"

var testGrant = strings.Repeat("ab", 32)

// started is the clock of the test sessions, in unix milliseconds.
const started = 1_790_000_000_000

func testKey(t testing.TB, n byte) *identity.Key {
	t.Helper()
	k, err := identity.FromSeed([]byte(strings.Repeat(string([]byte{n}), 32)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func openLog(t testing.TB, session string) *sessionlog.Log {
	t.Helper()
	db, err := store.Open(store.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	l, err := sessionlog.Open(db, session)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// world is one session with both its sides, and the receipt they made.
type world struct {
	requester, provider *identity.Key
	host, cosigner      *identity.Key
	parties             sessionlog.Parties
	key                 sessionlog.Key
	log                 *sessionlog.Log
	checkpoint          []byte
	receipt             Receipt
	raw                 []byte // signed by both
	alone               []byte // signed by the requester only
}

// story is a session with every kind of record, and the values behind it.
func story(key sessionlog.Key) []sessionlog.Record {
	recs := []sessionlog.Record{
		{Type: sessionlog.Opened, Grant: testGrant, Note: "bubblewrap 0.8.0"},
		{Type: sessionlog.Call, Call: "c1", Tool: "read_file", Verdict: sessionlog.Allowed,
			Fill: key.Fill(sessionlog.Values{Path: []byte("app/main.go"), Args: []byte(`{"path":"app/main.go"}`)})},
		{Type: sessionlog.Result, Call: "c1", Tool: "read_file", Verdict: sessionlog.OK, Bytes: 4096,
			Fill: key.Fill(sessionlog.Values{Result: []byte{0xff, 0x00, 0x01}})},
		{Type: sessionlog.Call, Call: "c2", Tool: "read_file", Verdict: sessionlog.Denied, Code: "secret_path"},
		{Type: sessionlog.Path, Note: "relay to direct quic"},
		{Type: sessionlog.Call, Call: "c3", Tool: "write_file", Verdict: sessionlog.Allowed},
		{Type: sessionlog.Call, Call: "c4", Tool: "run_command", Verdict: sessionlog.Allowed},
		{Type: sessionlog.Result, Call: "c3", Tool: "write_file", Verdict: sessionlog.OK, Written: 2048, Redacted: 2},
		{Type: sessionlog.Closed},
	}
	for i := range recs {
		recs[i].Time = started + int64(i)
	}
	return recs
}

// play runs a session to its end. Change edits the records first.
func play(t testing.TB, session string, requester, provider byte, cosign bool, change func([]sessionlog.Record)) *world {
	t.Helper()
	w := &world{requester: testKey(t, requester), provider: testKey(t, provider), key: sessionlog.Key{1, 2, 3}}
	var certs [2]sessionlog.KeyCert
	var err error
	if w.host, certs[0], err = sessionlog.Certify(w.requester, session, sessionlog.RoleRequester); err != nil {
		t.Fatal(err)
	}
	if w.cosigner, certs[1], err = sessionlog.Certify(w.provider, session, sessionlog.RoleProvider); err != nil {
		t.Fatal(err)
	}
	w.parties = sessionlog.Parties{Session: session, Requester: w.requester.Public(), Provider: w.provider.Public(), Certs: certs[:]}
	w.log = openLog(t, session)
	recs := story(w.key)
	if change != nil {
		change(recs)
	}
	if _, err := w.log.Append(context.Background(), recs, nil); err != nil {
		t.Fatal(err)
	}
	w.checkpoint = w.sign(t, w.log.Head(), cosign)
	w.build(t, 4)
	return w
}

func (w *world) sign(t testing.TB, h sessionlog.Head, cosign bool) []byte {
	t.Helper()
	cp, err := sessionlog.SignCheckpoint(w.host, w.parties.Session, w.parties.Requester, h)
	if err != nil {
		t.Fatal(err)
	}
	if !cosign {
		return cp
	}
	line, err := sessionlog.Cosign(w.cosigner, w.parties, cp, time.Unix(1_800_000_000, 0))
	if err != nil {
		t.Fatal(err)
	}
	if cp, err = sessionlog.AddCosignature(cp, line, w.parties); err != nil {
		t.Fatal(err)
	}
	return cp
}

func (w *world) build(t testing.TB, acked uint64) {
	t.Helper()
	var err error
	if w.receipt, err = Build(w.log, w.parties, w.checkpoint, acked); err != nil {
		t.Fatal(err)
	}
	doc, err := w.receipt.Sign(w.requester)
	if err != nil {
		t.Fatal(err)
	}
	w.alone = doc.Raw()
	if doc, err = AddCountersignature(w.alone, doc.Sign(w.provider)); err != nil {
		t.Fatal(err)
	}
	w.raw = doc.Raw()
}

func (w *world) leaves(t testing.TB) [][]byte {
	t.Helper()
	leaves, err := w.log.Leaves(0, sessionlog.MaxRecords)
	if err != nil {
		t.Fatal(err)
	}
	return leaves
}

func (w *world) export(t testing.TB) []byte {
	t.Helper()
	var b strings.Builder
	if err := Export(&b, w.log); err != nil {
		t.Fatal(err)
	}
	return []byte(b.String())
}

// flips are what a changed byte may look like: any bit of it (see flipBits).
func flips(data []byte, try func(at int, changed []byte)) {
	for i := range data {
		for bit := range flipBits {
			changed := append([]byte{}, data...)
			changed[i] ^= 1 << bit
			try(i, changed)
		}
	}
}

// around shows the place of a change in a failed test.
func around(data []byte, i int) string {
	return fmt.Sprintf("byte %d of %d, %q", i, len(data), data[max(0, i-12):min(len(data), i+12)])
}
