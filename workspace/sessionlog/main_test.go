package sessionlog

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testSession = "mfrggzdfmztwq2lknnwg23tpoa"

var testGrant = strings.Repeat("ab", 32)

// testKey is the same key in every run, so golden vectors stay.
func testKey(t testing.TB, n byte) *identity.Key {
	t.Helper()
	k, err := identity.FromSeed([]byte(strings.Repeat(string([]byte{n}), 32)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func openStore(t testing.TB) *store.DB {
	t.Helper()
	db, err := store.Open(store.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func openLog(t testing.TB, db *store.DB) *Log {
	t.Helper()
	l, err := Open(db, testSession)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// sides are a session's two parties with their log keys.
type sides struct {
	Parties
	host, cosigner *identity.Key
}

func newSides(t testing.TB, session string, requester, provider byte) sides {
	t.Helper()
	r, p := testKey(t, requester), testKey(t, provider)
	host, hostCert, err := Certify(r, session, RoleRequester)
	if err != nil {
		t.Fatal(err)
	}
	cosigner, cosignerCert, err := Certify(p, session, RoleProvider)
	if err != nil {
		t.Fatal(err)
	}
	return sides{Parties{session, r.Public(), p.Public(), []KeyCert{hostCert, cosignerCert}}, host, cosigner}
}

// signed is the checkpoint of a head, by both if cosign is set.
func (s sides) signed(t testing.TB, h Head, cosign bool) []byte {
	t.Helper()
	cp, err := SignCheckpoint(s.host, s.Session, s.Requester, h)
	if err != nil {
		t.Fatal(err)
	}
	if !cosign {
		return cp
	}
	line, err := Cosign(s.cosigner, s.Parties, cp, time.Unix(1_800_000_000, 0))
	if err != nil {
		t.Fatal(err)
	}
	if cp, err = AddCosignature(cp, line, s.Parties); err != nil {
		t.Fatal(err)
	}
	return cp
}

// The records of the tests, in short.
func opened() Record {
	return Record{Type: Opened, Grant: testGrant, Note: "bubblewrap 0.8.0", Time: 1_790_000_000_000}
}
func call(id, tool string) Record {
	return Record{Type: Call, Call: id, Tool: tool, Verdict: Allowed, Time: 1_790_000_000_001}
}
func denied(id, tool, code string) Record {
	return Record{Type: Call, Call: id, Tool: tool, Verdict: Denied, Code: code, Time: 1_790_000_000_002}
}
func result(id, tool string, v Verdict) Record {
	return Record{Type: Result, Call: id, Tool: tool, Verdict: v, Bytes: 4096, Time: 1_790_000_000_003}
}
func ended(typ Type) Record { return Record{Type: typ, Time: 1_790_000_000_004} }

// story is a whole session: three tools, each verdict, one unknown outcome.
func story() []Record {
	fail := result("c3", "edit_file", Failed)
	fail.Code, fail.Bytes, fail.Written = "changed", 0, 0
	wrote := result("c4", "write_file", OK)
	wrote.Bytes, wrote.Written, wrote.Redacted = 100, 2048, 1
	return []Record{
		opened(), call("c1", "read_file"), result("c1", "read_file", OK),
		denied("c2", "read_file", "secret_path"), {Type: Path, Note: "relay to direct quic", Time: 1_790_000_000_000},
		call("c3", "edit_file"), call("c4", "write_file"), wrote, fail,
		call("c5", "read_file"), {Type: Cosigned, Time: 1_790_000_000_000}, ended(Closed),
	}
}

func mustAppend(t testing.TB, l *Log, recs ...Record) Appended {
	t.Helper()
	a, err := l.Append(context.Background(), recs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// leavesOf is the whole log.
func leavesOf(t testing.TB, l *Log) [][]byte {
	t.Helper()
	leaves, err := l.Leaves(0, MaxRecords)
	if err != nil {
		t.Fatal(err)
	}
	return leaves
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
