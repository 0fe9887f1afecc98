package identity

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/edwards25519"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/mr-tron/base58"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// vectors are testdata/ids.json: keys with their spellings, and byte strings
// and texts that are no key.
type vectors struct {
	Keys []struct {
		Seed, Public, AgentID, PeerID, DID, Fingerprint string
	}
	BadKeys []struct{ Why, Public string }
	BadIDs  []struct{ Why, ID string }
}

func load(t testing.TB) (v vectors) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "ids.json"))
	if err == nil {
		err = json.Unmarshal(raw, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestSpellings: each key has its three spellings, libp2p agrees on its own,
// and each spelling leads back.
func TestSpellings(t *testing.T) {
	t.Parallel()
	for i, v := range load(t).Keys {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			k, err := FromSeed(unhex(t, v.Seed))
			if err != nil {
				t.Fatal(err)
			}
			p := k.Public()
			got := []string{hex.EncodeToString(p[:]), string(p.AgentID()), string(p.PeerID()), p.DID(), p.Fingerprint(), p.String()}
			want := []string{v.Public, v.AgentID, v.PeerID, v.DID, v.Fingerprint, v.PeerID}
			for i := range got {
				if got[i] != want[i] {
					t.Errorf("spelling %d is %s, want %s", i, got[i], want[i])
				}
			}
			theirs, err := crypto.UnmarshalEd25519PublicKey(p[:])
			if err != nil {
				t.Fatal(err)
			}
			id, err := peer.IDFromPublicKey(theirs)
			if err != nil || id.String() != v.PeerID {
				t.Errorf("libp2p spells it %s (%v)", id, err)
			}
			for _, s := range []string{v.AgentID, v.PeerID, v.DID} {
				if back, err := ParseID(s); err != nil || back != p {
					t.Errorf("ParseID(%s) = %v, %v", s, back, err)
				}
			}
			text, err := p.MarshalText()
			var back PublicKey
			if err != nil || back.UnmarshalText(text) != nil || back != p {
				t.Errorf("text %s, %v", text, err)
			}
		})
	}
}

// TestLibp2pKeys: many random keys, both ways.
func TestLibp2pKeys(t *testing.T) {
	t.Parallel()
	for range 200 {
		k := Generate()
		priv, err := crypto.UnmarshalEd25519PrivateKey(k.Private())
		if err != nil {
			t.Fatal(err)
		}
		id, err := peer.IDFromPrivateKey(priv)
		if err != nil || id.String() != string(k.Public().PeerID()) {
			t.Fatalf("libp2p: %s (%v), ours %s", id, err, k.Public().PeerID())
		}
		decoded, err := peer.Decode(string(k.Public().PeerID()))
		if err != nil || decoded != id {
			t.Fatalf("libp2p reads ours as %v (%v)", decoded, err)
		}
	}
}

// TestUnsafeKeys: points of small order, encodings that are not canonical, and
// what is no point, are refused by every parser.
func TestUnsafeKeys(t *testing.T) {
	t.Parallel()
	for _, v := range load(t).BadKeys {
		t.Run(v.Why+" "+v.Public[:min(len(v.Public), 8)], func(t *testing.T) {
			t.Parallel()
			raw := unhex(t, v.Public)
			if p, err := ParsePublic(raw); !errors.Is(err, ErrKey) || !p.IsZero() {
				t.Errorf("ParsePublic: %v, %v", p, err)
			}
			var p PublicKey
			if err := p.UnmarshalText([]byte(base58.Encode(raw))); !errors.Is(err, ErrKey) || !p.IsZero() {
				t.Errorf("UnmarshalText: %v", err)
			}
			for _, s := range []string{
				base58.Encode(raw),
				base58.Encode(append(bytes.Clone(peerPrefix), raw...)),
				"did:key:z" + base58.Encode(append(bytes.Clone(didPrefix), raw...)),
			} {
				if p, err := ParseID(s); !errors.Is(err, ErrKey) || !p.IsZero() {
					t.Errorf("ParseID(%s): %v, %v", s, p, err)
				}
			}
		})
	}
}

// TestEverySmallOrderPoint makes all eight points of the torsion group anew,
// so the committed list can't have a hole.
func TestEverySmallOrderPoint(t *testing.T) {
	t.Parallel()
	g, err := new(edwards25519.Point).SetBytes(unhex(t, "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"))
	if err != nil {
		t.Fatal(err)
	}
	p, seen := edwards25519.NewIdentityPoint(), map[string]bool{}
	for range 8 {
		raw := p.Bytes()
		seen[string(raw)] = true
		if _, err := ParsePublic(raw); !errors.Is(err, ErrKey) {
			t.Errorf("%x: %v", raw, err)
		}
		p.Add(p, g)
	}
	if len(seen) != 8 {
		t.Errorf("%d points, want 8", len(seen))
	}
}

// TestWhySmallOrder shows the attack: for the identity point, one signature
// that nobody made verifies every message in Go's ed25519.
func TestWhySmallOrder(t *testing.T) {
	t.Parallel()
	pub := unhex(t, "01"+strings.Repeat("00", 31))
	sig := make([]byte, ed25519.SignatureSize) // R = identity, S = 0
	sig[0] = 1
	for _, msg := range []string{"pay alice", "pay mallory"} {
		if !ed25519.Verify(pub, []byte(msg), sig) {
			t.Skip("this Go refuses small-order keys itself")
		}
	}
	if _, err := ParsePublic(pub); !errors.Is(err, ErrKey) {
		t.Errorf("the key that anyone can sign for: %v", err)
	}
	if (PublicKey{}).Verify("p", []byte("m"), sig) {
		t.Error("something verifies for the zero key")
	}
}

// TestZeroKeyVerifiesNothing: y = 0 is a point of order 4, for which a forger
// needs a few tries only.
func TestZeroKeyVerifiesNothing(t *testing.T) {
	t.Parallel()
	forged := false
	for r := range 256 {
		sig := make([]byte, ed25519.SignatureSize)
		sig[0] = 1
		msg := []byte{byte(r)}
		forged = forged || ed25519.Verify(make([]byte, 32), purposed("p", msg), sig)
		if (PublicKey{}).Verify("p", msg, sig) {
			t.Fatal("a forgery verifies for the zero key")
		}
	}
	if !forged {
		t.Skip("this Go refuses the zero key itself")
	}
}

func TestBadIDs(t *testing.T) {
	t.Parallel()
	bad := load(t).BadIDs
	bad = append(bad, struct{ Why, ID string }{"very long", strings.Repeat("1", 1<<20)})
	for _, v := range bad {
		t.Run(v.Why, func(t *testing.T) {
			t.Parallel()
			if p, err := ParseID(v.ID); !errors.Is(err, ErrKey) || !p.IsZero() {
				t.Errorf("ParseID: %v, %v", p, err)
			}
			var p PublicKey
			if err := p.UnmarshalText([]byte(v.ID)); !errors.Is(err, ErrKey) || !p.IsZero() {
				t.Errorf("UnmarshalText: %v", err)
			}
		})
	}
}

func TestPurposes(t *testing.T) {
	t.Parallel()
	k, other := Generate(), Generate()
	sig := k.Sign("weft/a", []byte("message"))
	if !k.Public().Verify("weft/a", []byte("message"), sig) {
		t.Fatal("a signature does not verify")
	}
	for name, ok := range map[string]bool{
		"another purpose": k.Public().Verify("weft/b", []byte("message"), sig),
		"no purpose":      k.Public().Verify("", []byte("message"), sig),
		"moved boundary":  k.Public().Verify("weft/", append([]byte("a\x00"), "message"...), sig),
		"another message": k.Public().Verify("weft/a", []byte("messages"), sig),
		"another key":     other.Public().Verify("weft/a", []byte("message"), sig),
		"cut":             k.Public().Verify("weft/a", []byte("message"), sig[:63]),
		"longer":          k.Public().Verify("weft/a", []byte("message"), append(bytes.Clone(sig), 0)),
		"none":            k.Public().Verify("weft/a", []byte("message"), nil),
		"bare":            ed25519.Verify(k.Public().bytes(), []byte("message"), sig),
	} {
		if ok {
			t.Errorf("%s verifies", name)
		}
	}
}

func (p PublicKey) bytes() []byte { return p[:] }

// TestDerived: subkeys and secrets are the same in every run, and differ by
// purpose, by kind and by key.
func TestDerived(t *testing.T) {
	t.Parallel()
	k, err := FromSeed(bytes.Repeat([]byte{1}, 32))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{hex.EncodeToString(k.Private().Seed()): "the key itself"}
	add := func(name string, b []byte, err error) {
		if err != nil {
			t.Fatal(err)
		}
		s := hex.EncodeToString(b)
		if was, twice := seen[s]; twice {
			t.Errorf("%s and %s are one", was, name)
		}
		seen[s] = name
	}
	for _, purpose := range []string{"", "weft log a", "weft log b"} {
		sub, err := k.Sub(purpose)
		if err != nil {
			t.Fatal(err)
		}
		add("subkey "+purpose, sub.Private().Seed(), nil)
		secret, err := k.Secret(purpose, 32)
		add("secret "+purpose, secret, err)
	}
	other, err := Generate().Sub("weft log a")
	if err != nil {
		t.Fatal(err)
	}
	add("other's subkey", other.Private().Seed(), nil)
	sub, err := k.Sub("weft log a")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(sub.Public().AgentID()), "Dw1SMzvjx7DEYt38YvTGLzf5k5EXersU5vjN1nqNukuA"; got != want {
		t.Errorf("the subkey is %s, want %s: stored checkpoints would not verify", got, want)
	}
}

// TestKeyHides: no way of printing a key shows its secret.
func TestKeyHides(t *testing.T) {
	t.Parallel()
	k := Generate()
	seed := k.Private().Seed()
	for _, f := range []string{"%v", "%+v", "%s", "%q", "%#v", "%x", "%d"} {
		s := fmt.Sprintf(f, k)
		for name, secret := range map[string]string{
			"hex": hex.EncodeToString(seed[:8]), "decimal": strings.Trim(fmt.Sprint(seed[:8]), "[]"),
			"Go syntax": strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%#v", seed[:8]), "[]byte{"), "}"),
		} {
			if strings.Contains(s, secret) {
				t.Errorf("%s shows the seed as %s", f, name)
			}
		}
	}
	//lint:ignore SA9005 that nothing is marshalled is what is tested
	if raw, err := json.Marshal(k); err == nil && len(raw) > 2 {
		t.Errorf("JSON of a key is %s", raw)
	}
}

func TestFromSeedRefuses(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 31, 33, 64} {
		if _, err := FromSeed(make([]byte, n)); !errors.Is(err, ErrKey) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// FuzzParseID: whatever parses is safe, and one of the key's own spellings.
func FuzzParseID(f *testing.F) {
	v := load(f)
	for _, k := range v.Keys {
		f.Add(k.AgentID)
		f.Add(k.PeerID)
		f.Add(k.DID)
	}
	for _, k := range v.BadIDs {
		f.Add(k.ID)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParseID(s)
		if err != nil {
			if !errors.Is(err, ErrKey) || !p.IsZero() {
				t.Fatalf("%v, %v", p, err)
			}
			return
		}
		if _, err := ParsePublic(p[:]); err != nil {
			t.Fatalf("an unsafe key: %v", err)
		}
		if s != string(p.AgentID()) && s != string(p.PeerID()) && s != p.DID() {
			t.Fatalf("%q is none of the key's spellings", s)
		}
	})
}
