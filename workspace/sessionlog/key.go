package sessionlog

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"strconv"
)

// Field names a committed value of a record.
type Field string

// The committed fields. Path is the virtual path a call names, Args the call's
// arguments as received, Request the signed call message, Result the bytes
// that went back.
const (
	FieldPath    Field = "path"
	FieldArgs    Field = "args"
	FieldRequest Field = "request"
	FieldResult  Field = "result"
)

// Fields lists the committed fields in the order in which records and proofs
// carry them.
func Fields() []Field { return []Field{FieldPath, FieldArgs, FieldRequest, FieldResult} }

// Key salts the commitments of one session. Both sides hold it; whoever has it
// can test guesses of every value, so it is never shown, only single salts.
type Key [32]byte

// Salt opens one commitment.
type Salt [32]byte

// NewKey makes the key of a new session.
func NewKey() (k Key) {
	rand.Read(k[:])
	return k
}

// ParseKey reads the lower-case hex spelling of a key.
func ParseKey(s string) (Key, error) {
	b, err := parseHex(s)
	return Key(b), err
}

// String hides the key, so that a logged struct leaks nothing.
func (k Key) String() string { return "session log key" }

// GoString hides the key from %#v too.
func (k Key) GoString() string { return k.String() }

// Hex is the spelling that ParseKey reads. It is for the other side and for
// the requester's own store.
func (k Key) Hex() string { return hex.EncodeToString(k[:]) }

// Salt derives the salt of one field of one record: HKDF-Expand-SHA-256 (RFC
// 5869) of the key, with the field and the sequence number as info.
func (k Key) Salt(field Field, seq uint64) (s Salt) {
	info := "weft-log/v1 salt " + string(field) + " " + strconv.FormatUint(seq, 10)
	b, err := hkdf.Expand(sha256.New, k[:], info, len(s))
	if err != nil {
		panic(err) // 32 bytes are always available
	}
	return Salt(b)
}

// Commit is the commitment to value in a field of record seq, in hex.
func (k Key) Commit(field string, seq uint64, value []byte) string {
	return k.Salt(Field(field), seq).Commit(Field(field), value)
}

// Commit hashes value under the salt: SHA-256 of a domain, the field, the salt
// and the value. The salt has a fixed length, so the parts can't be moved.
func (s Salt) Commit(field Field, value []byte) string {
	h := sha256.New()
	h.Write([]byte("weft-log/v1 commit\x00"))
	h.Write([]byte(field))
	h.Write([]byte{0})
	h.Write(s[:])
	h.Write(value)
	var sum [sha256.Size]byte
	return hex.EncodeToString(h.Sum(sum[:0]))
}

// Hex is the spelling that ParseSalt reads.
func (s Salt) Hex() string { return hex.EncodeToString(s[:]) }

// ParseSalt reads the lower-case hex spelling of a salt.
func ParseSalt(text string) (Salt, error) {
	b, err := parseHex(text)
	return Salt(b), err
}

// Opens reports whether the salt and value are what commitment commits to.
func (s Salt) Opens(field Field, value []byte, commitment string) bool {
	return subtle.ConstantTimeCompare([]byte(s.Commit(field, value)), []byte(commitment)) == 1
}

// Values are the private values of one record. A nil value is not committed;
// an empty one is.
type Values struct {
	Path    []byte
	Args    []byte
	Request []byte
	Result  []byte
}

// Get is the value of a field, nil if there is none.
func (v Values) Get(f Field) []byte {
	switch f {
	case FieldPath:
		return v.Path
	case FieldArgs:
		return v.Args
	case FieldRequest:
		return v.Request
	case FieldResult:
		return v.Result
	}
	return nil
}

// Fill makes the callback that commits v under the key once the record's
// sequence number is known; see Record.Fill.
func (k Key) Fill(v Values) func(*Record) {
	return func(r *Record) {
		for _, f := range Fields() {
			if value := v.Get(f); value != nil {
				*r.field(f) = k.Commit(string(f), r.Seq, value)
			}
		}
	}
}

// parseHex reads 32 bytes of lower-case hex, the only spelling we write.
func parseHex(s string) (out [32]byte, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(out) || hex.EncodeToString(b) != s {
		return out, fmt.Errorf("not 64 lower-case hex digits")
	}
	return [32]byte(b), nil
}
