package session

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/weftmesh/weft/protocols/identity"
)

// Kind names a message. The set is closed: a kind that is not in the table
// below ends the attachment that carried it.
type Kind uint8

// The messages of a session. Their numbers are part of the wire format and are
// never used again for something else.
const (
	KindCall       Kind = 1  // provider: do this with that tool
	KindCancel     Kind = 2  // provider: stop that call
	KindProgress   Kind = 3  // requester: what a running call says
	KindResult     Kind = 4  // requester: how a call ended, with its log records
	KindRecords    Kind = 5  // requester: log records outside a result
	KindWelcome    Kind = 6  // requester: the log's key, salt and head
	KindJoined     Kind = 7  // provider: its log key and the head it holds
	KindCheckpoint Kind = 8  // requester: a signed tree head
	KindCosign     Kind = 9  // provider: its signature line for a tree head
	KindState      Kind = 10 // requester: open, paused, killed, expired, closed, aborted
	KindLeave      Kind = 11 // provider: it will send no more calls
	KindClosing    Kind = 12 // requester: the receipt it signed
	KindClosed     Kind = 13 // provider: its signature of the receipt
)

// Role is a side of a session. The zero Role stands for both.
type Role uint8

// The two sides.
const (
	Requester Role = 1 // whose folder it is
	Provider  Role = 2 // whose agent works in it
)

// Size limits of a message, in bytes. Each kind's own limit may be lower.
const (
	// MaxHeader holds the records of the largest result, or a receipt.
	MaxHeader = 1 << 20
	// MaxBody holds the largest write and the largest result, with room.
	MaxBody = 4 << 20
	// smallHeader is for headers that carry no records and no document.
	smallHeader = 64 << 10
)

// rule is what the table says of one kind.
type rule struct {
	name   string
	from   Role
	signed bool
	header int // longest header, bytes
	body   int // longest body, bytes
}

// rules is the closed set. There is no message that carries a prompt: the only
// free text is what a call's own tool arguments hold (which the gate bounds and
// logs), a running command's output, and three short reasons shown to people.
var rules = [...]rule{
	KindCall:       {"call", Provider, true, smallHeader, MaxBody},
	KindCancel:     {"cancel", Provider, false, smallHeader, 0},
	KindProgress:   {"progress", Requester, false, smallHeader, 0},
	KindResult:     {"result", Requester, true, MaxHeader, MaxBody},
	KindRecords:    {"records", Requester, true, MaxHeader, 0},
	KindWelcome:    {"welcome", Requester, false, smallHeader, 0},
	KindJoined:     {"joined", Provider, false, smallHeader, 0},
	KindCheckpoint: {"checkpoint", Requester, false, smallHeader, 0},
	KindCosign:     {"cosign", Provider, false, smallHeader, 0},
	KindState:      {"state", Requester, false, smallHeader, 0},
	KindLeave:      {"leave", Provider, false, smallHeader, 0},
	KindClosing:    {"closing", Requester, false, MaxHeader, 0},
	KindClosed:     {"closed", Provider, false, smallHeader, 0},
}

// Kinds lists every kind in order of its number.
func Kinds() []Kind {
	var all []Kind
	for k := range rules {
		if rules[k].name != "" {
			all = append(all, Kind(k))
		}
	}
	return all
}

// rule returns the table row of k.
func (k Kind) rule() (rule, bool) {
	if int(k) >= len(rules) || rules[k].name == "" {
		return rule{}, false
	}
	return rules[k], true
}

// String is the name of the kind, as in logs.
func (k Kind) String() string {
	if r, ok := k.rule(); ok {
		return r.name
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// From is the side that may send the kind, zero for an unknown kind.
func (k Kind) From() Role { r, _ := k.rule(); return r.from }

// Signed reports whether every message of the kind carries a signature.
func (k Kind) Signed() bool { r, _ := k.rule(); return r.signed }

// Lane is one of the ordered streams of a session. Messages of one lane arrive
// in the order of their Send; lanes share the path fairly and don't wait for
// each other, so a large message on LaneBulk holds nothing up on LaneMain.
type Lane uint8

// The lanes. A message is on LaneMain unless its sender says otherwise.
const (
	LaneMain Lane = 0
	LaneBulk Lane = 1

	lanes = 2
)

// Message is one session message: a strict JSON header, raw bytes, and the
// sender's signature where the kind has one. EncodeX makes it, DecodeX reads
// it. Its slices must not be changed after Send, nor after Receive by a reader
// that shares them.
type Message struct {
	Kind   Kind
	Header []byte
	Body   []byte
	// Sig is 64 bytes of ed25519 for a signed kind and empty for any other.
	Sig []byte
	// Lane is not signed: it orders delivery and means nothing else.
	Lane Lane
}

// check applies the table to a message's sizes.
func (m Message) check() error {
	r, ok := m.Kind.rule()
	if !ok {
		return fmt.Errorf("%w: %d", ErrUnknownKind, uint8(m.Kind))
	}
	return r.check(m.Kind, len(m.Header), len(m.Body), len(m.Sig))
}

// check refuses sizes beyond the kind's limits.
func (r rule) check(k Kind, header, body, sig int) error {
	switch {
	case header > r.header:
		return fmt.Errorf("%w: %s header of %d bytes, the limit is %d", ErrTooLarge, k, header, r.header)
	case body > r.body:
		return fmt.Errorf("%w: %s body of %d bytes, the limit is %d", ErrTooLarge, k, body, r.body)
	case header < 2: // "{}"
		return fmt.Errorf("%w: %s without a header", ErrMalformed, k)
	case r.signed && sig != ed25519.SignatureSize:
		return fmt.Errorf("%w: %s without a signature", ErrMalformed, k)
	case !r.signed && sig != 0:
		return fmt.Errorf("%w: %s with a signature", ErrMalformed, k)
	}
	return nil
}

// signPurpose separates message signatures from every other use of the key.
const signPurpose = "weft/session-msg/v1"

// Sign returns m with k's signature for the session. The signature covers the
// session's name, the kind, the header bytes as carried and the SHA-256 of the
// body, so it holds outside the channel too: a stored call proves itself.
func Sign(k *identity.Key, session string, m Message) Message {
	return SignSum(k, session, m, sha256.Sum256(m.Body))
}

// SignSum is Sign for a caller that has the SHA-256 of m's body already.
func SignSum(k *identity.Key, session string, m Message, sum [sha256.Size]byte) Message {
	m.Sig = k.Sign(signPurpose, signedBytes(session, m, sum))
	return m
}

// Verify returns ErrSignature unless m carries p's signature for the session.
func Verify(p identity.PublicKey, session string, m Message) error {
	return VerifySum(p, session, m, sha256.Sum256(m.Body))
}

// VerifySum is Verify for a caller that needs the SHA-256 of m's body too, and
// has computed it from these very bytes.
func VerifySum(p identity.PublicKey, session string, m Message, sum [sha256.Size]byte) error {
	if !p.Verify(signPurpose, signedBytes(session, m, sum), m.Sig) {
		return fmt.Errorf("%w: of %s on a %s", ErrSignature, p.AgentID(), m.Kind)
	}
	return nil
}

// signedBytes is what a message signature covers. Every variable part is preceded
// by its length, so no two messages share these bytes.
func signedBytes(session string, m Message, sum [sha256.Size]byte) []byte {
	b := make([]byte, 0, 4+len(session)+1+4+len(m.Header)+len(sum))
	b = binary.BigEndian.AppendUint32(b, uint32(len(session)))
	b = append(b, session...)
	b = append(b, byte(m.Kind))
	b = binary.BigEndian.AppendUint32(b, uint32(len(m.Header)))
	b = append(b, m.Header...)
	return append(b, sum[:]...)
}
