// Package identity holds the one key a peer is known by and its three
// spellings.
//
// Every device, agent and A2A participant is an ed25519 key (RFC 8032). The
// same 32 bytes are written as an agent id (base58btc of the raw key, the A2A
// spelling), as a libp2p peer id (base58btc of the identity multihash of the
// protobuf key, libp2p specs peer-ids), and as a did:key. This package is the
// only place that converts.
//
// Go's ed25519 accepts public keys of small order, for which one fixed
// signature verifies every message. ParsePublic and every parser here refuse
// them, so a PublicKey value is safe to pin.
package identity

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/edwards25519"
	"github.com/mr-tron/base58"
)

// ErrKey is wrapped by every error about a malformed or unsafe key or id.
var ErrKey = errors.New("bad key")

// PublicKey is a peer's verified-safe ed25519 public key. The zero value is
// not a key.
type PublicKey [ed25519.PublicKeySize]byte

// AgentID is base58btc of the raw public key.
type AgentID string

// PeerID is libp2p's spelling of the key ("12D3Koo...").
type PeerID string

// Key is a private key. It never prints itself.
type Key struct {
	priv ed25519.PrivateKey
	pub  PublicKey
}

// peerPrefix is the identity multihash (0x00, length 36) of a protobuf
// PublicKey{Type: Ed25519, Data: 32 bytes}.
var peerPrefix = []byte{0x00, 0x24, 0x08, 0x01, 0x12, 0x20}

// didPrefix is the multicodec varint of ed25519-pub.
var didPrefix = []byte{0xed, 0x01}

// Generate makes a new key from the system's random source.
func Generate() *Key {
	seed := make([]byte, ed25519.SeedSize)
	rand.Read(seed)
	k, err := FromSeed(seed)
	if err != nil {
		panic(err) // a generated key is never of small order
	}
	return k
}

// FromSeed makes the key of a 32-byte RFC 8032 seed.
func FromSeed(seed []byte) (*Key, error) {
	if len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("%w: seed of %d bytes, need %d", ErrKey, len(seed), ed25519.SeedSize)
	}
	priv := ed25519.NewKeyFromSeed(seed)
	pub, err := ParsePublic(priv.Public().(ed25519.PublicKey))
	if err != nil {
		return nil, err
	}
	return &Key{priv: priv, pub: pub}, nil
}

// Public returns the public half.
func (k *Key) Public() PublicKey { return k.pub }

// Private returns the key for the libraries that need it (libp2p, DSSE).
func (k *Key) Private() ed25519.PrivateKey { return k.priv }

// String shows the public id only, so a logged key leaks nothing.
func (k *Key) String() string { return "key of " + string(k.pub.AgentID()) }

// Format prints String for every verb, since %#v and %d would otherwise print
// the fields.
func (k Key) Format(f fmt.State, _ rune) { io.WriteString(f, k.String()) }

// Sign signs msg under a purpose, so that a signature made for one purpose
// never verifies for another: the signed bytes are purpose, NUL, msg. A purpose
// is a constant of ours without NUL.
func (k *Key) Sign(purpose string, msg []byte) []byte {
	return ed25519.Sign(k.priv, purposed(purpose, msg))
}

// Sub derives a further signing key for one purpose, by HKDF-SHA-256 (RFC
// 5869) over the seed. It is used where a specification wants a key of its
// own (C2SP tlog-cosignature).
func (k *Key) Sub(purpose string) (*Key, error) {
	seed, err := hkdf.Key(sha256.New, k.priv.Seed(), nil, "weft/subkey/v1\x00"+purpose, ed25519.SeedSize)
	if err != nil {
		return nil, fmt.Errorf("derive subkey: %w", err)
	}
	return FromSeed(seed)
}

// Secret derives n secret bytes for one purpose, as Sub does for keys.
func (k *Key) Secret(purpose string, n int) ([]byte, error) {
	return hkdf.Key(sha256.New, k.priv.Seed(), nil, "weft/secret/v1\x00"+purpose, n)
}

// Verify reports whether sig is p's signature of msg for the purpose. Nothing
// verifies for the zero PublicKey, which is a point of small order.
func (p PublicKey) Verify(purpose string, msg, sig []byte) bool {
	return !p.IsZero() && len(sig) == ed25519.SignatureSize && ed25519.Verify(p[:], purposed(purpose, msg), sig)
}

func purposed(purpose string, msg []byte) []byte {
	b := make([]byte, 0, len(purpose)+1+len(msg))
	b = append(b, purpose...)
	b = append(b, 0)
	return append(b, msg...)
}

// ParsePublic checks that raw is a canonical point of large order.
func ParsePublic(raw []byte) (PublicKey, error) {
	var p PublicKey
	if len(raw) != len(p) {
		return p, fmt.Errorf("%w: %d bytes, need %d", ErrKey, len(raw), len(p))
	}
	point, err := new(edwards25519.Point).SetBytes(raw)
	if err != nil {
		return p, fmt.Errorf("%w: not a curve point", ErrKey)
	}
	if string(point.Bytes()) != string(raw) {
		return p, fmt.Errorf("%w: not the canonical encoding", ErrKey)
	}
	if new(edwards25519.Point).MultByCofactor(point).Equal(edwards25519.NewIdentityPoint()) == 1 {
		return p, fmt.Errorf("%w: small order", ErrKey)
	}
	copy(p[:], raw)
	return p, nil
}

// IsZero reports whether p was never set.
func (p PublicKey) IsZero() bool { return p == PublicKey{} }

// AgentID spells the key the A2A way.
func (p PublicKey) AgentID() AgentID { return AgentID(base58.Encode(p[:])) }

// PeerID spells the key libp2p's way.
func (p PublicKey) PeerID() PeerID {
	return PeerID(base58.Encode(append(append([]byte{}, peerPrefix...), p[:]...)))
}

// DID spells the key as a did:key (W3C did-method-key).
func (p PublicKey) DID() string {
	return "did:key:z" + base58.Encode(append(append([]byte{}, didPrefix...), p[:]...))
}

// Fingerprint is the short form that two people read to each other: the first
// 80 bits of SHA-256 of the key, in four groups of four base32 symbols.
func (p PublicKey) Fingerprint() string {
	sum := sha256.Sum256(append([]byte("weft/fingerprint/v1\x00"), p[:]...))
	s := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:10])
	return strings.Join([]string{s[0:4], s[4:8], s[8:12], s[12:16]}, "-")
}

// String is the peer id, the spelling that libp2p tools show.
func (p PublicKey) String() string { return string(p.PeerID()) }

// MarshalText writes the agent id.
func (p PublicKey) MarshalText() ([]byte, error) { return []byte(p.AgentID()), nil }

// UnmarshalText reads an agent id.
func (p *PublicKey) UnmarshalText(text []byte) error {
	if len(text) > 64 {
		return fmt.Errorf("%w: id of %d bytes", ErrKey, len(text))
	}
	raw, err := base58.Decode(string(text))
	if err != nil || base58.Encode(raw) != string(text) {
		return fmt.Errorf("%w: %q is not base58", ErrKey, text)
	}
	*p, err = ParsePublic(raw)
	return err
}

// ParseID reads any spelling of a whole id: agent id, peer id or did:key.
func ParseID(s string) (PublicKey, error) {
	if len(s) > 128 {
		return PublicKey{}, fmt.Errorf("%w: id of %d bytes", ErrKey, len(s))
	}
	body, prefixes := s, [][]byte{peerPrefix, nil}
	if rest, ok := strings.CutPrefix(s, "did:key:z"); ok {
		body, prefixes = rest, [][]byte{didPrefix}
	}
	raw, err := base58.Decode(body)
	if err != nil || base58.Encode(raw) != body {
		return PublicKey{}, fmt.Errorf("%w: %q is neither a peer id, an agent id nor a did:key", ErrKey, s)
	}
	for _, prefix := range prefixes {
		if len(raw) == len(prefix)+ed25519.PublicKeySize && strings.HasPrefix(string(raw), string(prefix)) {
			return ParsePublic(raw[len(prefix):])
		}
	}
	return PublicKey{}, fmt.Errorf("%w: %q is neither a peer id, an agent id nor a did:key", ErrKey, s)
}
