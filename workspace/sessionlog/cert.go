package sessionlog

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/protocols/strict"
)

// maxCert bounds the encoding of a KeyCert, which takes about 350 bytes.
const maxCert = 1 << 10

// ErrCert is wrapped when a certificate isn't the one that is needed.
var ErrCert = errors.New("bad log key certificate")

// Role is a side of a session.
type Role string

// The two sides.
const (
	RoleRequester Role = "requester"
	RoleProvider  Role = "provider"
)

// certPurpose separates these signatures from an identity's others.
const certPurpose = "weft/log-key/v1"

// KeyCert says that an identity signs one session's checkpoints with Key, in
// one role. C2SP tlog-cosignature wants a key for that purpose alone.
type KeyCert struct {
	Session  string             `json:"session"`
	Role     Role               `json:"role"`
	Identity identity.PublicKey `json:"identity"`
	Key      identity.PublicKey `json:"key"`
	Sig      []byte             `json:"sig"`
}

// Certify derives the log subkey of id for a session and certifies it. It
// gives the same key every time, so nothing needs to be stored.
func Certify(id *identity.Key, session string, role Role) (*identity.Key, KeyCert, error) {
	sub, err := id.Sub("weft log " + session)
	if err != nil {
		return nil, KeyCert{}, err
	}
	c := KeyCert{Session: session, Role: role, Identity: id.Public(), Key: sub.Public()}
	c.Sig = id.Sign(certPurpose, c.message())
	return sub, c, c.Verify(session, role, id.Public())
}

// message is what the identity signs. Every part has its length in front.
func (c KeyCert) message() []byte {
	var b []byte
	for _, part := range [][]byte{[]byte(c.Session), []byte(c.Role), c.Identity[:], c.Key[:]} {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	return b
}

// Verify checks that c certifies a key for this session, role and identity.
func (c KeyCert) Verify(session string, role Role, id identity.PublicKey) error {
	switch {
	case !ValidSession(session):
		return fmt.Errorf("%w: session id", ErrCert)
	case role != RoleRequester && role != RoleProvider:
		return fmt.Errorf("%w: role", ErrCert)
	case c.Session != session:
		return fmt.Errorf("%w: it is for another session", ErrCert)
	case c.Role != role:
		return fmt.Errorf("%w: it is for the role %q, not %q", ErrCert, c.Role, role)
	case c.Identity != id:
		return fmt.Errorf("%w: it is of another identity", ErrCert)
	case c.Key == c.Identity:
		return fmt.Errorf("%w: the log key must not be the identity itself", ErrCert)
	case !id.Verify(certPurpose, c.message(), c.Sig):
		return fmt.Errorf("%w: signature", ErrCert)
	}
	return nil
}

// Encode is the compact JSON that goes into messages.
func (c KeyCert) Encode() ([]byte, error) { return strict.Marshal(c) }

// ParseCert reads Encode's output. It verifies nothing; see KeyCert.Verify.
func ParseCert(raw []byte) (KeyCert, error) {
	var c KeyCert
	if err := strict.Unmarshal(raw, maxCert, &c); err != nil {
		return KeyCert{}, fmt.Errorf("%w: %w", ErrCert, err)
	}
	return c, nil
}

// Parties are the two sides of a session and their certificates: whatever is
// needed to verify its checkpoints.
type Parties struct {
	Session   string
	Requester identity.PublicKey
	Provider  identity.PublicKey
	// Certs is the requester's certificate, then the provider's once it joined.
	Certs []KeyCert
}

// check verifies the certificates against the identities.
func (p Parties) check() error {
	if p.Requester == p.Provider {
		return fmt.Errorf("%w: requester and provider are the same key", ErrCert)
	}
	if n := len(p.Certs); n < 1 || n > 2 {
		return fmt.Errorf("%w: %d certificates, need the requester's and at most the provider's", ErrCert, n)
	}
	if err := p.Certs[0].Verify(p.Session, RoleRequester, p.Requester); err != nil {
		return fmt.Errorf("requester: %w", err)
	}
	if len(p.Certs) == 1 {
		return nil
	}
	if err := p.Certs[1].Verify(p.Session, RoleProvider, p.Provider); err != nil {
		return fmt.Errorf("provider: %w", err)
	}
	if p.Certs[0].Key == p.Certs[1].Key {
		return fmt.Errorf("%w: both sides certified one key", ErrCert)
	}
	return nil
}
