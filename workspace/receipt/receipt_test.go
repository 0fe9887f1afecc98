package receipt

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/protocols/signed"
	"github.com/weftmesh/weft/protocols/strict"
	"github.com/weftmesh/weft/workspace/sessionlog"
)

// TestReceiptGolden: the committed receipt of an earlier weft still verifies,
// and today's weft makes the same bytes.
func TestReceiptGolden(t *testing.T) {
	t.Parallel()
	w := play(t, testSession, 1, 2, true, nil)
	want, err := os.ReadFile(filepath.Join("testdata", "receipt.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(w.raw, want) {
		t.Errorf("the receipt format changed:\n%s", w.raw)
	}
	if _, err := Verify(want); err != nil {
		t.Error(err)
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	w := play(t, testSession, 1, 2, true, nil)
	head := w.log.Head()
	counts := sessionlog.Counts{
		"read_file":   {sessionlog.OK: 1, sessionlog.Denied: 1},
		"write_file":  {sessionlog.OK: 1},
		"run_command": {sessionlog.Unknown: 1},
	}
	want := Verdict{
		Valid: true, Session: testSession, Requester: w.requester.Public(), Provider: w.provider.Public(),
		State: sessionlog.Closed, Grant: testGrant, Records: 9, Root: hex.EncodeToString(head.Root[:]),
		Calls: 4, Counts: counts, Unknown: 1,
		Cosigned: true, ProviderSigned: true, LogCosigned: true, CosignedAt: time.Unix(1_800_000_000, 0).UTC(),
	}
	got, err := Verify(w.raw)
	if err != nil {
		t.Fatal(err)
	}
	want.Digest = got.Digest
	if diff := cmp.Diff(want, got); diff != "" || len(got.Digest) != 64 {
		t.Error(diff)
	}

	// The requester alone: valid, and says what it is.
	got, err = Verify(w.alone)
	if err != nil || got.Cosigned || got.ProviderSigned || !got.LogCosigned || got.Digest != want.Digest {
		t.Errorf("requester alone: %+v, %v", got, err)
	}
	v := play(t, testSession, 1, 2, false, nil)
	got, err = Verify(v.alone)
	if err != nil || got.Cosigned || got.LogCosigned || got.Unacked != 5 || !got.CosignedAt.IsZero() {
		t.Errorf("not cosigned: %+v, %v", got, err)
	}
	if got, err = Verify(v.raw); err != nil || got.Cosigned || !got.ProviderSigned {
		t.Errorf("countersigned only: %+v, %v", got, err)
	}
	// A provider that never joined has no certificate.
	v.parties.Certs = v.parties.Certs[:1]
	v.build(t, 0)
	if got, err = Verify(v.alone); err != nil || got.Unacked != 9 || got.Cosigned {
		t.Errorf("never joined: %+v, %v", got, err)
	}
}

// TestNoPath: a receipt names nothing of the work (case 75).
func TestNoPath(t *testing.T) {
	t.Parallel()
	w := play(t, testSession, 1, 2, true, nil)
	doc, err := signed.Open(w.raw, signed.Receipt)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"receipt": doc.Payload(), "export": w.export(t)} {
		for _, secret := range []string{"main.go", "app/", w.key.Hex()} {
			if bytes.Contains(data, []byte(secret)) {
				t.Errorf("the %s has %q", name, secret)
			}
		}
	}
}

// TestReceiptEveryBit: no bit of a receipt can change, in neither signature
// state.
func TestReceiptEveryBit(t *testing.T) {
	t.Parallel()
	w := play(t, testSession, 1, 2, true, nil)
	for name, raw := range map[string][]byte{"both": w.raw, "requester": w.alone} {
		flips(raw, func(i int, changed []byte) {
			if _, err := Verify(changed); err == nil {
				t.Errorf("%s: changed %s, still valid", name, around(raw, i))
			}
		})
		for n := range raw {
			if _, err := Verify(raw[:n]); err == nil {
				t.Errorf("%s: cut to %d of %d bytes, still valid", name, n, len(raw))
			}
		}
		for _, add := range []string{" ", "\n", "}", string(raw)} {
			if _, err := Verify(append(bytes.Clone(raw), add...)); err == nil {
				t.Errorf("%s: with %.4q behind, still valid", name, add)
			}
		}
	}
}

// TestFieldsAgree: a requester that signs a receipt whose fields contradict
// each other, its checkpoint or its certificates is refused.
func TestFieldsAgree(t *testing.T) {
	t.Parallel()
	w := play(t, testSession, 1, 2, true, nil)
	lone := play(t, testSession, 1, 2, false, nil)
	other := play(t, "othersession", 1, 2, true, nil)
	stranger := play(t, testSession, 3, 4, true, nil)
	swapped := play(t, testSession, 2, 1, true, nil)
	rewritten := play(t, testSession, 1, 2, false, func(r []sessionlog.Record) { r[2].Bytes = 1 })

	// transplant is the cosignature of the true log under a rewritten one.
	_, cosignature, _ := strings.Cut(string(w.checkpoint), "\n\n")
	cosignature = cosignature[strings.Index(cosignature, "\n")+1:]
	foreign := string(w.sign(t, w.log.Head(), false))
	foreign += lastLine(string(other.checkpoint))

	for name, change := range map[string]func(*Receipt){
		"version":                     func(r *Receipt) { r.V = 2 },
		"session":                     func(r *Receipt) { r.Session = "othersession" },
		"requester":                   func(r *Receipt) { r.Requester = stranger.requester.Public() },
		"provider":                    func(r *Receipt) { r.Provider = stranger.provider.Public() },
		"swapped roles":               func(r *Receipt) { r.Checkpoint, r.Certs = swapped.receipt.Checkpoint, swapped.receipt.Certs },
		"grant empty":                 func(r *Receipt) { r.Grant = "" },
		"grant upper case":            func(r *Receipt) { r.Grant = strings.ToUpper(r.Grant) },
		"state open":                  func(r *Receipt) { r.State = "open" },
		"state a record type":         func(r *Receipt) { r.State = sessionlog.Paused },
		"opened never":                func(r *Receipt) { r.OpenedAt = 0 },
		"closed never":                func(r *Receipt) { r.ClosedAt = 0 },
		"calls more":                  func(r *Receipt) { r.Calls++ },
		"calls fewer":                 func(r *Receipt) { r.Calls-- },
		"calls more than records":     func(r *Receipt) { r.Calls, r.Counts = 8, sessionlog.Counts{"glob": {sessionlog.OK: 8}}; r.Unknown = 0 },
		"counts more":                 func(r *Receipt) { r.Counts["read_file"][sessionlog.OK]++ },
		"counts overflow":             func(r *Receipt) { r.Counts["read_file"][sessionlog.OK] = 1<<53 - 1 },
		"counts of zero":              func(r *Receipt) { r.Counts["read_file"][sessionlog.Failed] = 0 },
		"counts of an empty tool":     func(r *Receipt) { r.Counts["glob"] = nil },
		"counts of a made-up verdict": func(r *Receipt) { r.Counts["glob"] = map[sessionlog.Verdict]uint64{"allowed": 1}; r.Calls++ },
		"counts with a path":          func(r *Receipt) { r.Counts["a/b"] = map[sessionlog.Verdict]uint64{sessionlog.OK: 1}; r.Calls++ },
		"unknown fewer":               func(r *Receipt) { r.Unknown = 0 },
		"unknown more":                func(r *Receipt) { r.Unknown++ },
		"bytes read negative":         func(r *Receipt) { r.BytesRead = -1 },
		"bytes written huge":          func(r *Receipt) { r.BytesWritten = 1 << 53 },
		"redacted negative":           func(r *Receipt) { r.Redacted = -1 },
		"records more":                func(r *Receipt) { r.Records++ },
		"records fewer":               func(r *Receipt) { r.Records-- },
		"root":                        func(r *Receipt) { r.Root = strings.Repeat("0", 64) },
		"root upper case":             func(r *Receipt) { r.Root = strings.ToUpper(r.Root) },
		"unacked though cosigned":     func(r *Receipt) { r.Unacked = 1 },
		"sandbox with a path":         func(r *Receipt) { r.Sandbox = "/usr/bin/bwrap" },
		"sandbox long":                func(r *Receipt) { r.Sandbox = strings.Repeat("x", 201) },
		"no checkpoint":               func(r *Receipt) { r.Checkpoint = "" },
		"checkpoint of other session": func(r *Receipt) { r.Checkpoint = other.receipt.Checkpoint },
		"checkpoint of others":        func(r *Receipt) { r.Checkpoint = stranger.receipt.Checkpoint },
		"certs of other session":      func(r *Receipt) { r.Certs = other.receipt.Certs },
		"certs of others":             func(r *Receipt) { r.Certs = stranger.receipt.Certs },
		"others' certs and note":      func(r *Receipt) { r.Certs, r.Checkpoint = stranger.receipt.Certs, stranger.receipt.Checkpoint },
		"certs swapped":               func(r *Receipt) { r.Certs[0], r.Certs[1] = r.Certs[1], r.Certs[0] },
		"provider's cert dropped":     func(r *Receipt) { r.Certs = r.Certs[:1] },
		"no certs":                    func(r *Receipt) { r.Certs = nil },
		"cosignature transplanted": func(r *Receipt) {
			r.Checkpoint = rewritten.receipt.Checkpoint + cosignature
			r.Root, r.BytesRead = rewritten.receipt.Root, 1
		},
		"cosignature of other session": func(r *Receipt) { r.Checkpoint = foreign },
		"not cosigned, none unacked": func(r *Receipt) {
			r.Checkpoint = lone.receipt.Checkpoint
		},
		"not cosigned, all and more unacked": func(r *Receipt) {
			r.Checkpoint, r.Unacked = lone.receipt.Checkpoint, 10
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := decoded(t, w.raw)
			change(&r)
			if _, err := r.Sign(w.requester); err == nil {
				t.Error("Sign signed it")
			}
			payload, err := strict.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			doc, err := signed.Seal(signed.Receipt, payload, w.requester, w.provider)
			if err != nil {
				t.Fatal(err)
			}
			if v, err := Verify(doc.Raw()); err == nil {
				t.Errorf("valid: %+v", v)
			}
		})
	}
}

func lastLine(s string) string {
	s = strings.TrimSuffix(s, "\n")
	return s[strings.LastIndex(s, "\n")+1:] + "\n"
}

// decoded is a fresh copy of a receipt, to be changed.
func decoded(t *testing.T, raw []byte) Receipt {
	t.Helper()
	r, _, err := Open(raw)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestWhoSigns(t *testing.T) {
	t.Parallel()
	w := play(t, testSession, 1, 2, true, nil)
	payload, err := strict.Marshal(w.receipt)
	if err != nil {
		t.Fatal(err)
	}
	third := testKey(t, 9)
	for name, keys := range map[string][]*identity.Key{
		"provider alone":         {w.provider},
		"a stranger":             {third},
		"provider first":         {w.provider, w.requester},
		"a stranger besides":     {w.requester, third},
		"a stranger as third":    {w.requester, w.provider, third},
		"the requester's subkey": {w.host},
	} {
		doc, err := signed.Seal(signed.Receipt, payload, keys...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(doc.Raw()); !errors.Is(err, signed.ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
	doc, err := signed.Seal(signed.Grant, payload, w.requester)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(doc.Raw()); err == nil {
		t.Error("a document of another type is a receipt")
	}
	if _, err := w.receipt.Sign(w.provider); !errors.Is(err, ErrInvalid) {
		t.Errorf("signed by the provider: %v", err)
	}
	if _, err := AddCountersignature(w.alone, doc.Sign(third)); !errors.Is(err, signed.ErrSignature) {
		t.Errorf("a stranger's countersignature: %v", err)
	}
}

func TestBuildRefuses(t *testing.T) {
	t.Parallel()
	w := play(t, testSession, 1, 2, true, nil)
	short, err := w.log.HeadAt(8)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Build(w.log, w.parties, w.sign(t, short, true), 9); !errors.Is(err, ErrInvalid) {
		t.Errorf("a checkpoint of less: %v", err)
	}
	if _, err := Build(w.log, w.parties, []byte("x"), 9); !errors.Is(err, sessionlog.ErrCheckpoint) {
		t.Errorf("no checkpoint: %v", err)
	}
	running := openLog(t, testSession)
	if _, err := running.Append(t.Context(), story(w.key)[:3], nil); err != nil {
		t.Fatal(err)
	}
	if _, err := Build(running, w.parties, w.sign(t, running.Head(), true), 3); !errors.Is(err, ErrRunning) {
		t.Errorf("a session that runs: %v", err)
	}
}

// TestCountersign: the provider signs only what its own replica says.
func TestCountersign(t *testing.T) {
	t.Parallel()
	w := play(t, testSession, 1, 2, true, nil)
	replica := openLog(t, testSession)
	if err := replica.AppendLeaves(t.Context(), w.leaves(t), w.log.Head(), nil); err != nil {
		t.Fatal(err)
	}
	sig, err := Countersign(w.alone, replica, testGrant, w.provider)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := AddCountersignature(w.alone, sig)
	if err != nil || !bytes.Equal(doc.Raw(), w.raw) {
		t.Errorf("both signatures: %v", err)
	}

	lie := func(change func(*Receipt)) []byte {
		r := decoded(t, w.raw)
		change(&r)
		payload, err := strict.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := signed.Seal(signed.Receipt, payload, w.requester)
		if err != nil {
			t.Fatal(err)
		}
		return doc.Raw()
	}
	behind := openLog(t, testSession)
	h8, _ := w.log.HeadAt(8)
	if err := behind.AppendLeaves(t.Context(), w.leaves(t)[:8], h8, nil); err != nil {
		t.Fatal(err)
	}
	rewritten := play(t, testSession, 1, 2, false, func(r []sessionlog.Record) { r[2].Bytes = 1 })
	otherLog := openLog(t, "othersession")
	for name, c := range map[string]struct {
		raw     []byte
		replica *sessionlog.Log
		grant   string
		key     *identity.Key
	}{
		"bytes read less":     {lie(func(r *Receipt) { r.BytesRead-- }), replica, testGrant, w.provider},
		"bytes written more":  {lie(func(r *Receipt) { r.BytesWritten++ }), replica, testGrant, w.provider},
		"redacted more":       {lie(func(r *Receipt) { r.Redacted++ }), replica, testGrant, w.provider},
		"another end":         {lie(func(r *Receipt) { r.State = sessionlog.Killed }), replica, testGrant, w.provider},
		"another sandbox":     {lie(func(r *Receipt) { r.Sandbox = "none" }), replica, testGrant, w.provider},
		"opened later":        {lie(func(r *Receipt) { r.OpenedAt++ }), replica, testGrant, w.provider},
		"closed later":        {lie(func(r *Receipt) { r.ClosedAt++ }), replica, testGrant, w.provider},
		"a denial as ok":      {lie(func(r *Receipt) { r.Counts["read_file"] = map[sessionlog.Verdict]uint64{sessionlog.OK: 2} }), replica, testGrant, w.provider},
		"another tool":        {lie(func(r *Receipt) { r.Counts["glob"] = r.Counts["write_file"]; delete(r.Counts, "write_file") }), replica, testGrant, w.provider},
		"another grant":       {lie(func(r *Receipt) { r.Grant = strings.Repeat("cd", 32) }), replica, testGrant, w.provider},
		"grant not accepted":  {w.alone, replica, strings.Repeat("cd", 32), w.provider},
		"not the provider":    {w.alone, replica, testGrant, w.requester},
		"of another session":  {w.alone, otherLog, testGrant, w.provider},
		"replica is behind":   {w.alone, behind, testGrant, w.provider},
		"rewritten log":       {rewritten.alone, replica, testGrant, w.provider},
		"a changed signature": {bytes.Replace(w.alone, []byte(`"sig":"`), []byte(`"sig":"A`), 1), replica, testGrant, w.provider},
	} {
		if sig, err := Countersign(c.raw, c.replica, c.grant, c.key); err == nil || sig != nil {
			t.Errorf("%s: signed", name)
		}
	}
}

// FuzzVerify: only the two true documents verify, and nothing panics.
func FuzzVerify(f *testing.F) {
	raw, err := os.ReadFile(filepath.Join("testdata", "receipt.json"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := Verify(data)
		if err == nil && v.Session == testSession && v.Cosigned && !bytes.Equal(data, raw) {
			t.Fatalf("a forgery verifies: %q", data)
		}
	})
}
