package sessionlog

import (
	"bytes"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	formatlog "github.com/transparency-dev/formats/log"
	formatnote "github.com/transparency-dev/formats/note"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/weftmesh/weft/protocols/identity"
)

func testHead() Head {
	p := NewReplay(testSession)
	for _, r := range numbered(story()...) {
		leaf, err := r.encode()
		if err == nil {
			_, err = p.Add(leaf)
		}
		if err != nil {
			panic(err)
		}
	}
	return p.Head()
}

func TestCheckpointGolden(t *testing.T) {
	t.Parallel()
	s := newSides(t, testSession, 1, 2)
	got := s.signed(t, testHead(), true)
	want, err := os.ReadFile(filepath.Join("testdata", "checkpoint.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the checkpoint format changed:\n%s", got)
	}
}

// vkey is the C2SP spelling of a party's log key, for other tools.
func vkey(t *testing.T, name string, key []byte) string {
	t.Helper()
	v, err := note.NewEd25519VerifierKey(name, key)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func raw(k *identity.Key) []byte {
	p := k.Public()
	return p[:]
}

// TestCheckpointByOthers verifies our checkpoint with x/mod's note and tlog
// and transparency-dev's formats, unmodified.
func TestCheckpointByOthers(t *testing.T) {
	t.Parallel()
	s := newSides(t, testSession, 1, 2)
	h := testHead()
	cp := s.signed(t, h, true)
	origin := Origin(testSession, s.Requester)

	hostVKey := vkey(t, origin, raw(s.host))
	host, err := note.NewVerifier(hostVKey)
	if err != nil {
		t.Fatal(err)
	}
	cosignerVKey, err := formatnote.VKeyToCosignatureV1(vkey(t, CosignerName(testSession, s.Provider), raw(s.cosigner)))
	if err != nil {
		t.Fatal(err)
	}
	cosigner, err := formatnote.NewVerifierForCosignatureV1(cosignerVKey)
	if err != nil {
		t.Fatal(err)
	}

	n, err := note.Open(cp, note.VerifierList(host, cosigner))
	if err != nil || len(n.Sigs) != 2 || len(n.UnverifiedSigs) != 0 {
		t.Fatalf("x/mod note: %v, %d signatures", err, len(n.Sigs))
	}
	at, err := formatnote.CoSigV1Timestamp(n.Sigs[1])
	if err != nil || at.Unix() != 1_800_000_000 {
		t.Errorf("cosignature time %v, %v", at, err)
	}
	c, rest, _, err := formatlog.ParseCheckpoint(cp, origin, host, cosigner)
	if err != nil || len(rest) != 0 {
		t.Fatalf("transparency-dev: %v, rest %q", err, rest)
	}
	if c.Size != h.Size || !bytes.Equal(c.Hash, h.Root[:]) || c.Origin != origin {
		t.Errorf("they read %+v", c)
	}

	v, err := VerifyCheckpoint(cp, s.Parties)
	if err != nil || !v.Cosigned || v.Head != h || v.At.Unix() != 1_800_000_000 {
		t.Errorf("ours: %+v, %v", v, err)
	}
}

// TestProofByOthers verifies a proof file with x/mod's tlog and with
// transparency-dev's merkle, after splitting it as C2SP tlog-proof says.
func TestProofByOthers(t *testing.T) {
	t.Parallel()
	s := newSides(t, testSession, 1, 2)
	l := openLog(t, openStore(t))
	mustAppend(t, l, story()...)
	cp := s.signed(t, l.Head(), true)
	leaves := leavesOf(t, l)
	host, err := note.NewVerifier(vkey(t, Origin(testSession, s.Requester), raw(s.host)))
	if err != nil {
		t.Fatal(err)
	}
	for i, leaf := range leaves {
		p, err := l.Prove(uint64(i), cp, s.Parties)
		if err != nil {
			t.Fatal(err)
		}
		head, checkpoint, _ := strings.Cut(string(p), "\n\n")
		lines := strings.Split(head, "\n")
		if lines[0] != "c2sp.org/tlog-proof@v1" {
			t.Fatalf("first line %q", lines[0])
		}
		var path tlog.RecordProof
		var raw [][]byte
		for _, line := range lines[2:] {
			b, err := base64.StdEncoding.DecodeString(line)
			if err != nil {
				t.Fatal(err)
			}
			path, raw = append(path, tlog.Hash(b)), append(raw, b)
		}
		n, err := note.Open([]byte(checkpoint), note.VerifierList(host))
		if err != nil {
			t.Fatal(err)
		}
		tree, err := tlog.ParseTree([]byte("go.sum database tree\n" + strings.SplitN(n.Text, "\n", 2)[1]))
		if err != nil {
			t.Fatal(err)
		}
		if err := tlog.CheckRecord(path, tree.N, tree.Hash, int64(i), tlog.RecordHash(leaf)); err != nil {
			t.Errorf("x/mod tlog: record %d: %v", i, err)
		}
		if err := proof.VerifyInclusion(rfc6962.DefaultHasher, uint64(i), uint64(tree.N), rfc6962.DefaultHasher.HashLeaf(leaf), raw, tree.Hash[:]); err != nil {
			t.Errorf("transparency-dev merkle: record %d: %v", i, err)
		}
		if r, c, err := CheckProof(p, leaf, s.Parties); err != nil || r.Seq != uint64(i) || !c.Cosigned {
			t.Errorf("ours: record %d: %+v %v", i, r, err)
		}
	}
}

// TestCheckpointEveryBit: no bit of a checkpoint can change.
func TestCheckpointEveryBit(t *testing.T) {
	t.Parallel()
	s := newSides(t, testSession, 1, 2)
	cp := s.signed(t, testHead(), true)
	flips(cp, func(i int, changed []byte) {
		if _, err := VerifyCheckpoint(changed, s.Parties); err == nil {
			t.Errorf("changed %s, still valid", around(cp, i))
		}
	})
	for n := range cp {
		c, err := VerifyCheckpoint(cp[:n], s.Parties)
		// Without the provider's line it is the requester's alone, and says so.
		if err == nil && c.Cosigned {
			t.Errorf("cut to %d bytes, still cosigned", n)
		}
	}
}

func TestCheckpointAttacks(t *testing.T) {
	t.Parallel()
	s := newSides(t, testSession, 1, 2)
	other := newSides(t, "othersession", 1, 2)
	mallory := newSides(t, testSession, 3, 4)
	swapped := newSides(t, testSession, 2, 1)
	h := testHead()
	cp := string(s.signed(t, h, true))
	text, lines, _ := strings.Cut(cp, "\n\n")
	hostLine, cosignLine, _ := strings.Cut(lines, "\n")
	hostLine += "\n"
	line := func(x sides) string {
		_, l, _ := strings.Cut(string(x.signed(t, h, true)), "\n\n")
		_, l, _ = strings.Cut(l, "\n")
		return l
	}
	parties := func(change func(*Parties)) Parties {
		p := s.Parties
		p.Certs = append([]KeyCert{}, p.Certs...)
		change(&p)
		return p
	}
	// The requester signs in the provider's place, with a key it certified.
	forged := s
	forged.cosigner, forged.Certs = s.host, []KeyCert{s.Certs[0], s.Certs[0]}

	for name, c := range map[string]struct {
		note string
		p    Parties
	}{
		"of another session":           {string(other.signed(t, h, true)), s.Parties},
		"session with others' certs":   {cp, parties(func(p *Parties) { p.Certs = other.Certs })},
		"swapped roles":                {string(swapped.signed(t, h, true)), s.Parties},
		"swapped parties":              {cp, parties(func(p *Parties) { p.Requester, p.Provider = p.Provider, p.Requester })},
		"swapped certs":                {cp, parties(func(p *Parties) { p.Certs[0], p.Certs[1] = p.Certs[1], p.Certs[0] })},
		"of others":                    {string(mallory.signed(t, h, true)), s.Parties},
		"others' certs":                {string(mallory.signed(t, h, true)), parties(func(p *Parties) { p.Certs = mallory.Certs })},
		"one cert twice":               {cp, forged.Parties},
		"no certs":                     {cp, parties(func(p *Parties) { p.Certs = nil })},
		"three certs":                  {cp, parties(func(p *Parties) { p.Certs = append(p.Certs, p.Certs[1]) })},
		"cosigned, cert missing":       {cp, parties(func(p *Parties) { p.Certs = p.Certs[:1] })},
		"cert signature cut":           {cp, parties(func(p *Parties) { p.Certs[0].Sig = p.Certs[0].Sig[:63] })},
		"cert of the identity itself":  {cp, parties(func(p *Parties) { p.Certs[0].Key = p.Requester })},
		"both roles one identity":      {cp, parties(func(p *Parties) { p.Provider = p.Requester })},
		"cosignature of other session": {text + "\n\n" + hostLine + line(other), s.Parties},
		"cosignature of others":        {text + "\n\n" + hostLine + line(mallory), s.Parties},
		"cosignature of another head":  {string(s.signed(t, Head{5, h.Root}, false)) + cosignLine, s.Parties},
		"cosignature alone":            {text + "\n\n" + cosignLine, s.Parties},
		"lines in the other order":     {text + "\n\n" + cosignLine + hostLine, s.Parties},
		"host line twice":              {text + "\n\n" + hostLine + hostLine, s.Parties},
		"cosigner line twice":          {cp + cosignLine, s.Parties},
		"a stranger's line behind":     {cp + "\u2014 example.com/w " + base64.StdEncoding.EncodeToString(make([]byte, 68)) + "\n", s.Parties},
		"no signature":                 {text + "\n\n", s.Parties},
		"empty":                        {"", s.Parties},
		"text behind":                  {cp + "x", s.Parties},
		"newline behind":               {cp + "\n", s.Parties},
		"over the limit":               {cp + strings.Repeat("x", maxCheckpoint), s.Parties},
		"extension line, signed":       {resigned(t, s, text+"\nextension\n"), s.Parties},
		"leading zero in size, signed": {resigned(t, s, strings.Replace(text, "\n12\n", "\n012\n", 1)+"\n"), s.Parties},
		"size zero, signed":            {resigned(t, s, strings.Replace(text, "\n12\n", "\n0\n", 1)+"\n"), s.Parties},
		"size huge, signed":            {resigned(t, s, strings.Replace(text, "\n12\n", "\n99999999\n", 1)+"\n"), s.Parties},
		"root of 31 bytes, signed":     {resigned(t, s, strings.Join(strings.Split(text, "\n")[:2], "\n")+"\n"+base64.StdEncoding.EncodeToString(make([]byte, 31))+"\n"), s.Parties},
		"other origin, signed":         {resigned(t, s, "example.com/x"+text[strings.Index(text, "\n"):]+"\n"), s.Parties},
		"provider's key signs as host": {hostSigned(t, s, h), s.Parties},
		"base64 with stray bits":       {strayBits(t, cp), s.Parties},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := VerifyCheckpoint([]byte(c.note), c.p); err == nil {
				t.Errorf("accepted: %+v", got)
			}
		})
	}
	t.Run("good", func(t *testing.T) {
		t.Parallel()
		if _, err := VerifyCheckpoint([]byte(cp), s.Parties); err != nil {
			t.Error(err)
		}
	})
	t.Run("requester alone", func(t *testing.T) {
		t.Parallel()
		c, err := VerifyCheckpoint([]byte(text+"\n\n"+hostLine), s.Parties)
		if err != nil || c.Cosigned || !c.At.IsZero() {
			t.Errorf("%+v, %v", c, err)
		}
	})
}

// resigned is a note with any text under the requester's true log key.
func resigned(t *testing.T, s sides, text string) string {
	t.Helper()
	k := noteKey{name: Origin(s.Session, s.Requester), alg: algEd25519, pub: s.host.Public(), priv: s.host.Private()}
	msg, err := note.Sign(&note.Note{Text: text}, k)
	if err != nil {
		t.Fatal(err)
	}
	return string(msg)
}

// hostSigned is a checkpoint that the provider signed in the requester's name.
func hostSigned(t *testing.T, s sides, h Head) string {
	t.Helper()
	msg, err := SignCheckpoint(s.cosigner, s.Session, s.Requester, h)
	if err != nil {
		t.Fatal(err)
	}
	return string(msg)
}

// strayBits sets bits of the last signature that lenient decoders drop: the
// 76 bytes leave four bits over.
func strayBits(t *testing.T, cp string) string {
	t.Helper()
	i := strings.LastIndex(cp, "=")
	for i > 0 && cp[i] == '=' {
		i--
	}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	at := strings.IndexByte(alphabet, cp[i])
	changed := cp[:i] + string(alphabet[at^1]) + cp[i+1:]
	a, errA := base64.StdEncoding.DecodeString(lastField(cp))
	b, errB := base64.StdEncoding.DecodeString(lastField(changed))
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Fatal("the change is not a stray bit")
	}
	return changed
}

func lastField(cp string) string {
	f := strings.Fields(cp)
	return f[len(f)-1]
}

func TestCosignRefuses(t *testing.T) {
	t.Parallel()
	s := newSides(t, testSession, 1, 2)
	cp := s.signed(t, testHead(), false)
	if _, err := Cosign(s.host, s.Parties, cp, time.Now()); !errors.Is(err, ErrCert) {
		t.Errorf("with the requester's key: %v", err)
	}
	alone := s.Parties
	alone.Certs = s.Certs[:1]
	if _, err := Cosign(s.cosigner, alone, cp, time.Now()); !errors.Is(err, ErrCert) {
		t.Errorf("without a certificate: %v", err)
	}
	if _, err := Cosign(s.cosigner, s.Parties, append([]byte("x"), cp...), time.Now()); err == nil {
		t.Error("a bad checkpoint was cosigned")
	}
	if _, err := AddCosignature(cp, "", s.Parties); !errors.Is(err, ErrCheckpoint) {
		t.Errorf("an empty line was added: %v", err)
	}
	if _, err := AddCosignature(cp, strings.Repeat("x", 1<<20), s.Parties); !errors.Is(err, ErrCheckpoint) {
		t.Errorf("a huge line was added: %v", err)
	}
	if _, err := SignCheckpoint(s.host, testSession, s.Requester, Head{}); err == nil {
		t.Error("an empty log was signed")
	}
}

func TestCertRoundTrip(t *testing.T) {
	t.Parallel()
	s := newSides(t, testSession, 1, 2)
	raw, err := s.Certs[0].Encode()
	if err != nil {
		t.Fatal(err)
	}
	c, err := ParseCert(raw)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Verify(testSession, RoleRequester, s.Requester); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"role":     c.Verify(testSession, RoleProvider, s.Requester),
		"session":  c.Verify("othersession", RoleRequester, s.Requester),
		"identity": c.Verify(testSession, RoleRequester, s.Provider),
		"no role":  c.Verify(testSession, "", s.Requester),
		"shape":    c.Verify("", RoleRequester, s.Requester),
	} {
		if !errors.Is(err, ErrCert) {
			t.Errorf("wrong %s: %v", name, err)
		}
	}
	again, _, err := Certify(testKey(t, 1), testSession, RoleRequester)
	if err != nil || again.Public() != c.Key {
		t.Errorf("the log key changes from start to start: %v", err)
	}
	if _, err := ParseCert(bytes.Repeat([]byte("x"), 1<<20)); !errors.Is(err, ErrCert) {
		t.Errorf("a huge certificate: %v", err)
	}
	if _, _, err := Certify(testKey(t, 1), "Bad Session", RoleRequester); !errors.Is(err, ErrCert) {
		t.Errorf("a bad session id: %v", err)
	}
}

// FuzzVerifyCheckpoint: only the two exact spellings verify.
func FuzzVerifyCheckpoint(f *testing.F) {
	s := newSides(f, testSession, 1, 2)
	both, alone := s.signed(f, testHead(), true), s.signed(f, testHead(), false)
	f.Add(both)
	f.Add(alone)
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := VerifyCheckpoint(data, s.Parties)
		if err != nil {
			return
		}
		if string(data) != string(both) && string(data) != string(alone) || c.Head != testHead() {
			t.Fatalf("a forgery verifies: %q", data)
		}
	})
}
