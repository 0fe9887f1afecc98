package signed

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/secure-systems-lab/go-securesystemslib/signerverifier"
	"go.uber.org/goleak"

	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/protocols/strict"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func testKey(t testing.TB, n byte) *identity.Key {
	t.Helper()
	k, err := identity.FromSeed(bytes.Repeat([]byte{n}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func seal(t testing.TB, typ Type, payload string, keys ...*identity.Key) *Document {
	t.Helper()
	d, err := Seal(typ, []byte(payload), keys...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// vector is one line of testdata/vectors.json. Good ones have Signers and
// Digest, bad ones Why.
type vector struct {
	Why     string
	Type    Type
	Raw     string
	Payload string
	Signers []identity.AgentID
	Digest  string
}

func vectors(t testing.TB) (good, bad []vector) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Good, Bad []vector }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	return file.Good, file.Bad
}

func TestGolden(t *testing.T) {
	t.Parallel()
	good, bad := vectors(t)
	types := map[Type]bool{}
	for _, v := range good {
		d, err := Open([]byte(v.Raw), v.Type)
		if err != nil {
			t.Errorf("%s: %v", v.Type, err)
			continue
		}
		digest := d.Digest()
		got := vector{"", v.Type, string(d.Raw()), string(d.Payload()), nil, hex.EncodeToString(digest[:])}
		for _, s := range d.Signers() {
			got.Signers = append(got.Signers, s.AgentID())
		}
		if diff := cmp.Diff(v, got); diff != "" {
			t.Error(diff)
		}
		// ed25519 is deterministic: sealing again gives the same bytes.
		keys := []*identity.Key{testKey(t, 1), testKey(t, 2)}[:len(v.Signers)]
		if again := seal(t, v.Type, v.Payload, keys...); string(again.Raw()) != v.Raw {
			t.Errorf("%s: sealed again it is %s", v.Type, again.Raw())
		}
		types[v.Type] = true
	}
	for _, typ := range []Type{Grant, Receipt, Profile, Mission, Ticket, Roster} {
		if !types[typ] {
			t.Errorf("no golden vector of %s", typ)
		}
	}
	for _, v := range bad {
		t.Run(v.Why, func(t *testing.T) {
			t.Parallel()
			d, err := Open([]byte(v.Raw), v.Type)
			if d != nil || !errors.Is(err, strict.ErrInput) && !errors.Is(err, ErrSignature) {
				t.Errorf("%v, %v", d, err)
			}
		})
	}
}

// TestPAE is the example of the DSSE specification.
func TestPAE(t *testing.T) {
	t.Parallel()
	d := seal(t, "http://example.com/HelloWorld", "hello world", testKey(t, 1))
	const want = "DSSEv1 29 http://example.com/HelloWorld 11 hello world"
	if string(d.PAE()) != want {
		t.Errorf("%q, want %q", d.PAE(), want)
	}
	if d.Digest() != sha256.Sum256([]byte(want)) {
		t.Error("the digest is not that of the encoding")
	}
}

// theirs is a key as go-securesystemslib has it.
func theirs(t *testing.T, k *identity.Key) *signerverifier.ED25519SignerVerifier {
	t.Helper()
	pub := k.Public()
	sv, err := signerverifier.NewED25519SignerVerifierFromSSLibKey(&signerverifier.SSLibKey{
		KeyID:  string(pub.AgentID()),
		KeyVal: signerverifier.KeyVal{Public: hex.EncodeToString(pub[:]), Private: hex.EncodeToString(k.Private().Seed())},
	})
	if err != nil {
		t.Fatal(err)
	}
	return sv
}

// TestOthersVerify: go-securesystemslib verifies our documents, each of the
// golden ones with all its signers.
func TestOthersVerify(t *testing.T) {
	t.Parallel()
	good, _ := vectors(t)
	for _, v := range good {
		var keys []dsse.Verifier
		for i := range v.Signers {
			keys = append(keys, theirs(t, testKey(t, byte(i+1))))
		}
		verifier, err := dsse.NewMultiEnvelopeVerifier(len(keys), keys...)
		if err != nil {
			t.Fatal(err)
		}
		var e dsse.Envelope
		if err := json.Unmarshal([]byte(v.Raw), &e); err != nil {
			t.Fatal(err)
		}
		accepted, payload, err := verifier.VerifyAndDecode(context.Background(), &e)
		if err != nil || len(accepted) != len(v.Signers) || string(payload) != v.Payload {
			t.Errorf("%s: %d accepted, payload %q, %v", v.Type, len(accepted), payload, err)
		}
		e.Payload = base64.StdEncoding.EncodeToString([]byte(v.Payload + " "))
		if _, err := verifier.Verify(context.Background(), &e); err == nil {
			t.Errorf("%s: they verify another payload", v.Type)
		}
	}
}

// TestOthersSign: we open what go-securesystemslib signed.
func TestOthersSign(t *testing.T) {
	t.Parallel()
	a, b := testKey(t, 1), testKey(t, 2)
	signer, err := dsse.NewEnvelopeSigner(theirs(t, a), theirs(t, b))
	if err != nil {
		t.Fatal(err)
	}
	e, err := signer.SignPayload(context.Background(), string(Grant), []byte(`{"v":1}`))
	if err != nil {
		t.Fatal(err)
	}
	env := envelope{Payload: e.Payload, PayloadType: e.PayloadType}
	for _, s := range e.Signatures {
		env.Signatures = append(env.Signatures, signature{s.KeyID, s.Sig})
	}
	raw, err := strict.Marshal(env)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Open(raw, Grant)
	if err != nil || !d.SignedBy(a.Public(), b.Public()) || string(d.Payload()) != `{"v":1}` {
		t.Errorf("%v", err)
	}
}

// TestEveryBit: no bit of a document can change.
func TestEveryBit(t *testing.T) {
	t.Parallel()
	raw := seal(t, Grant, `{"v":1,"text":"hello"}`, testKey(t, 1), testKey(t, 2)).Raw()
	for i := range raw {
		for bit := range 8 {
			changed := slices.Clone(raw)
			changed[i] ^= 1 << bit
			if _, err := Open(changed, Grant); err == nil {
				t.Errorf("bit %d of byte %d (%q) changed, still opens", bit, i, raw[max(0, i-9):min(i+9, len(raw))])
			}
		}
	}
	for n := range raw {
		if _, err := Open(raw[:n], Grant); err == nil {
			t.Errorf("cut to %d bytes, still opens", n)
		}
	}
}

// TestTypes: a signature for one type is none for another.
func TestTypes(t *testing.T) {
	t.Parallel()
	all := []Type{Grant, Receipt, Profile, Mission, Ticket, Roster}
	for _, made := range all {
		d := seal(t, made, `{"v":1}`, testKey(t, 1))
		for _, asked := range all {
			if _, err := Open(d.Raw(), asked); (err == nil) != (made == asked) {
				t.Errorf("a %s opened as %s: %v", made, asked, err)
			}
			relabelled := bytes.Replace(d.Raw(), []byte(made), []byte(asked), 1)
			if _, err := Open(relabelled, asked); (err == nil) != (made == asked) {
				t.Errorf("a %s relabelled as %s: %v", made, asked, err)
			}
		}
	}
	// The boundary between type and payload can't be moved.
	a, b := seal(t, "a 1", "b", testKey(t, 1)), seal(t, "a", "1 b", testKey(t, 1))
	if bytes.Equal(a.PAE(), b.PAE()) || a.Digest() == b.Digest() {
		t.Error("two documents have one encoding")
	}
}

func TestWith(t *testing.T) {
	t.Parallel()
	a, b, c := testKey(t, 1), testKey(t, 2), testKey(t, 3)
	one := seal(t, Receipt, `{"v":1}`, a)
	two, err := one.With(b.Public(), one.Sign(b))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(two.Raw(), seal(t, Receipt, `{"v":1}`, a, b).Raw()) {
		t.Error("added and sealed together differ")
	}
	if one.SignedBy(b.Public()) || len(one.Signers()) != 1 {
		t.Error("With changed the document it was called on")
	}
	if two.Digest() != one.Digest() {
		t.Error("the digest changed with a signature")
	}
	if again, err := two.With(b.Public(), one.Sign(b)); err != nil || !bytes.Equal(again.Raw(), two.Raw()) {
		t.Errorf("signed again: %v", err)
	}
	if opened, err := Open(two.Raw(), Receipt); err != nil || !opened.SignedBy(a.Public(), b.Public()) || opened.SignedBy(c.Public()) || opened.SignedBy() {
		t.Errorf("opened: %v", err)
	}
	forged := make([]byte, ed25519.SignatureSize)
	forged[0] = 1
	identityPoint := identity.PublicKey{1}
	for name, x := range map[string]struct {
		pub identity.PublicKey
		sig []byte
	}{
		"another's signature":      {c.Public(), one.Sign(b)},
		"no signature":             {c.Public(), nil},
		"cut":                      {c.Public(), one.Sign(c)[:63]},
		"of another payload":       {c.Public(), seal(t, Receipt, `{"v":2}`, a).Sign(c)},
		"of another type":          {c.Public(), seal(t, Grant, `{"v":1}`, a).Sign(c)},
		"a bare signature":         {c.Public(), ed25519.Sign(c.Private(), []byte(`{"v":1}`))},
		"a purposed signature":     {c.Public(), c.Sign("weft", one.PAE())},
		"the key anyone signs for": {identityPoint, forged},
		"the zero key":             {identity.PublicKey{}, forged},
	} {
		if _, err := one.With(x.pub, x.sig); !errors.Is(err, ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	var keys []*identity.Key
	for i := range MaxSignatures + 1 {
		keys = append(keys, testKey(t, byte(i+1)))
	}
	full := seal(t, Grant, "{}", keys[:MaxSignatures]...)
	if _, err := Open(full.Raw(), Grant); err != nil {
		t.Errorf("%d signatures: %v", MaxSignatures, err)
	}
	if _, err := full.With(keys[MaxSignatures].Public(), full.Sign(keys[MaxSignatures])); !errors.Is(err, ErrSignature) {
		t.Errorf("one more: %v", err)
	}
	if _, err := Seal(Grant, nil, keys...); !errors.Is(err, ErrSignature) {
		t.Errorf("sealed with one more: %v", err)
	}
	if _, err := Seal(Grant, nil); !errors.Is(err, ErrSignature) {
		t.Errorf("sealed by nobody: %v", err)
	}
	if _, err := Seal(Grant, nil, keys[0], keys[0]); !errors.Is(err, ErrSignature) {
		t.Errorf("sealed twice by one: %v", err)
	}
	biggest := seal(t, Grant, strings.Repeat("x", MaxPayload), keys[:MaxSignatures]...)
	if d, err := Open(biggest.Raw(), Grant); err != nil || len(d.Payload()) != MaxPayload {
		t.Errorf("the biggest document: %v", err)
	}
	if _, err := Seal(Grant, make([]byte, MaxPayload+1), keys[0]); !errors.Is(err, strict.ErrInput) {
		t.Errorf("a payload too big: %v", err)
	}
	if _, err := Open(make([]byte, MaxDocument+1), Grant); !errors.Is(err, strict.ErrInput) {
		t.Errorf("a document too big: %v", err)
	}
}

// TestSealCopies: what the caller does with its payload afterwards is not the
// document's.
func TestSealCopies(t *testing.T) {
	t.Parallel()
	payload := []byte(`{"v":1}`)
	d, err := Seal(Grant, payload, testKey(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	copy(payload, "XXXX")
	if string(d.Payload()) != `{"v":1}` {
		t.Error("the payload changed")
	}
	raw := slices.Clone(d.Raw())
	opened, err := Open(raw, Grant)
	if err != nil {
		t.Fatal(err)
	}
	copy(raw, "XXXX")
	if !bytes.Equal(opened.Raw(), d.Raw()) {
		t.Error("the envelope changed")
	}
}

// FuzzOpen: what opens has one encoding and verified signers, and
// go-securesystemslib agrees.
func FuzzOpen(f *testing.F) {
	good, bad := vectors(f)
	for _, v := range append(good, bad...) {
		f.Add([]byte(v.Raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, typ := range []Type{Grant, Receipt} {
			d, err := Open(raw, typ)
			if err != nil {
				if !errors.Is(err, strict.ErrInput) && !errors.Is(err, ErrSignature) {
					t.Fatalf("an error of another kind: %v", err)
				}
				continue
			}
			if !bytes.Equal(d.Raw(), raw) || len(d.Signers()) == 0 {
				t.Fatalf("opened as %s", d.Raw())
			}
			var e dsse.Envelope
			if err := json.Unmarshal(raw, &e); err != nil || len(e.Signatures) != len(d.Signers()) {
				t.Fatalf("another reader sees another envelope: %v", err)
			}
		}
	})
}
