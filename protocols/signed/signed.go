// Package signed makes and opens signed documents: DSSE envelopes over the
// payload's bytes exactly as carried.
//
// A document is {"payload","payloadType","signatures":[{"keyid","sig"}]}
// (DSSE v1.0, github.com/secure-systems-lab/dsse). The signed bytes are DSSE's
// pre-authentication encoding of type and payload, so a signature for one type
// never verifies for another and no canonical JSON is needed. keyid is the
// signer's agent id and is only a hint: Open verifies every signature against
// the key that its keyid spells, and the caller says who must have signed.
//
// An envelope has one encoding: compact, members in the order above. Open
// refuses any other, so that no byte of a stored document can change unseen.
//
// Open checks in a fixed order: size, envelope decode, type, payload size,
// signatures. Whoever reads the payload goes on with: payload decode, version,
// addressee, time window, required signer, quota, replay.
package signed

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/protocols/strict"
)

// Type is the media type of a payload.
type Type string

// The documents of weft. Each has golden vectors in testdata.
const (
	Grant   Type = "application/vnd.weft.grant+json"
	Receipt Type = "application/vnd.weft.receipt+json"
	Profile Type = "application/vnd.weft.profile+json"
	Mission Type = "application/vnd.weft.mission+json"
	Ticket  Type = "application/vnd.weft.ticket+json"
	Roster  Type = "application/vnd.weft.roster+json"
)

// MaxSignatures bounds an envelope: two parties and a few witnesses.
const MaxSignatures = 8

// MaxPayload bounds the payload of any document.
const MaxPayload = 256 << 10

// MaxDocument bounds an envelope: the payload in base64 and its signatures.
const MaxDocument = MaxPayload*4/3 + 8<<10

// ErrSignature is wrapped when a signature doesn't verify or is missing.
var ErrSignature = errors.New("bad signature")

// Document is an envelope whose every signature was verified.
type Document struct {
	raw     []byte
	typ     Type
	payload []byte
	env     envelope
	signers []identity.PublicKey
}

type envelope struct {
	Payload     string      `json:"payload"`
	PayloadType string      `json:"payloadType"`
	Signatures  []signature `json:"signatures"`
}

type signature struct {
	KeyID string `json:"keyid"`
	Sig   string `json:"sig"`
}

// Seal signs payload with each key, each once.
func Seal(typ Type, payload []byte, keys ...*identity.Key) (*Document, error) {
	if len(payload) > MaxPayload {
		return nil, fmt.Errorf("%w: payload of %d bytes, the limit is %d", strict.ErrInput, len(payload), MaxPayload)
	}
	if len(keys) == 0 || len(keys) > MaxSignatures {
		return nil, fmt.Errorf("%w: %d signers, need 1 to %d", ErrSignature, len(keys), MaxSignatures)
	}
	d := &Document{typ: typ, payload: slices.Clone(payload), env: envelope{
		Payload:     base64.StdEncoding.EncodeToString(payload),
		PayloadType: string(typ),
		Signatures:  []signature{},
	}}
	for _, k := range keys {
		if slices.Contains(d.signers, k.Public()) {
			return nil, fmt.Errorf("%w: %s signed twice", ErrSignature, k.Public().AgentID())
		}
		d.env.Signatures = append(d.env.Signatures, signature{
			KeyID: string(k.Public().AgentID()),
			Sig:   base64.StdEncoding.EncodeToString(ed25519.Sign(k.Private(), d.PAE())),
		})
		d.signers = append(d.signers, k.Public())
	}
	raw, err := strict.Marshal(d.env)
	if err != nil {
		return nil, fmt.Errorf("encode document: %w", err)
	}
	d.raw = raw
	return d, nil
}

// Open decodes and verifies a document of the given type.
func Open(raw []byte, typ Type) (*Document, error) {
	d := &Document{raw: slices.Clone(raw), typ: typ}
	if err := strict.Unmarshal(raw, MaxDocument, &d.env); err != nil {
		return nil, err
	}
	if one, err := strict.Marshal(d.env); err != nil || string(one) != string(raw) {
		return nil, fmt.Errorf("%w: not the compact encoding of a signed document", strict.ErrInput)
	}
	if d.env.PayloadType != string(typ) {
		return nil, fmt.Errorf("%w: a document of type %q, want %q", strict.ErrInput, d.env.PayloadType, typ)
	}
	if n := len(d.env.Signatures); n == 0 || n > MaxSignatures {
		return nil, fmt.Errorf("%w: %d signatures, need 1 to %d", ErrSignature, n, MaxSignatures)
	}
	payload, err := decodeBase64(d.env.Payload)
	if err != nil {
		return nil, fmt.Errorf("%w: payload is not base64", strict.ErrInput)
	}
	d.payload = payload
	for _, s := range d.env.Signatures {
		var pub identity.PublicKey
		if err := pub.UnmarshalText([]byte(s.KeyID)); err != nil {
			return nil, fmt.Errorf("%w: keyid: %v", ErrSignature, err)
		}
		sig, err := decodeBase64(s.Sig)
		if err != nil || !ed25519.Verify(pub[:], d.PAE(), sig) {
			return nil, fmt.Errorf("%w of %s", ErrSignature, pub.AgentID())
		}
		if slices.Contains(d.signers, pub) {
			return nil, fmt.Errorf("%w: %s signed twice", ErrSignature, pub.AgentID())
		}
		d.signers = append(d.signers, pub)
	}
	return d, nil
}

// Raw is the envelope as received or made; it is what is stored and forwarded.
func (d *Document) Raw() []byte { return d.raw }

// Payload is the signed payload, as carried.
func (d *Document) Payload() []byte { return d.payload }

// Signers are the keys whose signatures verified, in envelope order.
func (d *Document) Signers() []identity.PublicKey { return d.signers }

// SignedBy reports whether each of the keys signed.
func (d *Document) SignedBy(keys ...identity.PublicKey) bool {
	for _, k := range keys {
		if !slices.Contains(d.signers, k) {
			return false
		}
	}
	return len(keys) > 0
}

// Digest names the document: SHA-256 of its pre-authentication encoding, so it
// covers type and payload and stays the same when a signature is added.
func (d *Document) Digest() [32]byte { return sha256.Sum256(d.PAE()) }

// PAE is DSSE's pre-authentication encoding, the bytes that are signed.
func (d *Document) PAE() []byte { return dsse.PAE(string(d.typ), d.payload) }

// Sign makes a signature to send to another holder of the same payload.
func (d *Document) Sign(k *identity.Key) []byte { return ed25519.Sign(k.Private(), d.PAE()) }

// With adds another party's signature, verified. A party that signed already
// changes nothing.
func (d *Document) With(pub identity.PublicKey, sig []byte) (*Document, error) {
	if _, err := identity.ParsePublic(pub[:]); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	if !ed25519.Verify(pub[:], d.PAE(), sig) {
		return nil, fmt.Errorf("%w of %s", ErrSignature, pub.AgentID())
	}
	if slices.Contains(d.signers, pub) {
		return d, nil
	}
	if len(d.signers) >= MaxSignatures {
		return nil, fmt.Errorf("%w: %d signatures are there, which is the limit", ErrSignature, MaxSignatures)
	}
	n := *d
	n.env.Signatures = append(slices.Clone(d.env.Signatures), signature{
		KeyID: string(pub.AgentID()), Sig: base64.StdEncoding.EncodeToString(sig)})
	n.signers = append(slices.Clone(d.signers), pub)
	raw, err := strict.Marshal(n.env)
	if err != nil {
		return nil, fmt.Errorf("encode document: %w", err)
	}
	n.raw = raw
	return &n, nil
}

// decodeBase64 takes the one canonical spelling only, so that changing any
// byte of a document is noticed.
func decodeBase64(s string) ([]byte, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err == nil && base64.StdEncoding.EncodeToString(b) != s { // the decoder skips newlines
		err = errors.New("not canonical")
	}
	return b, err
}
