package sessionlog

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/weftmesh/weft/protocols/identity"
)

// maxCheckpoint bounds a note; with two signatures it takes about 600 bytes.
const maxCheckpoint = 4 << 10

// maxTime is the last second of the year 9999, so that a cosignature's time
// always fits time.Time and RFC 3339.
const maxTime = 253402300799

// ErrCheckpoint is wrapped when a checkpoint doesn't verify.
var ErrCheckpoint = errors.New("bad checkpoint")

// originPrefix is a schema-less URL, as C2SP tlog-checkpoint wants it.
const originPrefix = "github.com/weftmesh/weft/session/"

// Signature types of C2SP signed-note.
const (
	algEd25519     = 0x01
	algCosignature = 0x04 // cosignature/v1 of C2SP tlog-cosignature
)

// Origin is the first line of a session's checkpoints and the name of the
// requester's key in them.
func Origin(session string, requester identity.PublicKey) string {
	return originPrefix + session + "/" + string(requester.PeerID())
}

// CosignerName is the name of the provider's key in a session's checkpoints.
func CosignerName(session string, provider identity.PublicKey) string {
	return originPrefix + session + "/cosigner/" + string(provider.PeerID())
}

// Checkpoint is a verified checkpoint.
type Checkpoint struct {
	Head Head
	// Cosigned says that the provider signed too, and At when, by its clock.
	Cosigned bool
	At       time.Time
}

// noteKey is one party's key in a note: a note.Verifier, and a note.Signer
// when priv is set. at is the time that the next cosignature states.
type noteKey struct {
	name string
	alg  byte
	pub  identity.PublicKey
	priv ed25519.PrivateKey
	at   uint64
}

var (
	_ note.Verifier = noteKey{}
	_ note.Signer   = noteKey{}
)

// Name is the key's name in signature lines.
func (k noteKey) Name() string { return k.name }

// KeyHash is the C2SP key id: SHA-256(name, newline, type, key)[:4].
func (k noteKey) KeyHash() uint32 {
	sum := sha256.Sum256(append([]byte(k.name+"\n"), append([]byte{k.alg}, k.pub[:]...)...))
	return binary.BigEndian.Uint32(sum[:4])
}

// Sign makes the signature bytes of a line.
func (k noteKey) Sign(msg []byte) ([]byte, error) {
	if k.alg == algEd25519 {
		return ed25519.Sign(k.priv, msg), nil
	}
	sig := binary.BigEndian.AppendUint64(nil, k.at)
	return append(sig, ed25519.Sign(k.priv, cosigned(k.at, msg))...), nil
}

// Verify checks the signature bytes of a line.
func (k noteKey) Verify(msg, sig []byte) bool {
	if k.alg == algEd25519 {
		return len(sig) == ed25519.SignatureSize && ed25519.Verify(k.pub[:], msg, sig)
	}
	if len(sig) != 8+ed25519.SignatureSize {
		return false
	}
	at := binary.BigEndian.Uint64(sig)
	return at > 0 && at <= maxTime && ed25519.Verify(k.pub[:], cosigned(at, msg), sig[8:])
}

// cosigned is what a cosignature/v1 signs.
func cosigned(at uint64, text []byte) []byte {
	return append([]byte("cosignature/v1\ntime "+strconv.FormatUint(at, 10)+"\n"), text...)
}

func (p Parties) host() noteKey {
	return noteKey{name: Origin(p.Session, p.Requester), alg: algEd25519, pub: p.Certs[0].Key}
}

func (p Parties) cosigner() noteKey {
	return noteKey{name: CosignerName(p.Session, p.Provider), alg: algCosignature, pub: p.Certs[1].Key}
}

// SignCheckpoint makes the requester's checkpoint of a head. sub is the log
// subkey of Certify.
func SignCheckpoint(sub *identity.Key, session string, requester identity.PublicKey, h Head) ([]byte, error) {
	if h.Size == 0 || h.Size > MaxRecords {
		return nil, fmt.Errorf("%w: of %d records", ErrCheckpoint, h.Size)
	}
	k := noteKey{name: Origin(session, requester), alg: algEd25519, pub: sub.Public(), priv: sub.Private()}
	msg, err := note.Sign(&note.Note{Text: noteText(k.name, h)}, k)
	if err != nil {
		return nil, fmt.Errorf("sign checkpoint: %w", err)
	}
	return msg, nil
}

// Cosign verifies a checkpoint of the requester and makes the provider's
// signature line for it. The provider must have compared the head with its own
// replica first (Log.CheckHead): cosigning says that it did.
func Cosign(sub *identity.Key, p Parties, checkpoint []byte, at time.Time) (line string, err error) {
	if _, err := VerifyCheckpoint(checkpoint, p); err != nil {
		return "", err
	}
	if len(p.Certs) != 2 || p.Certs[1].Key != sub.Public() {
		return "", fmt.Errorf("%w: the provider has not certified this key", ErrCert)
	}
	k := p.cosigner()
	k.priv, k.at = sub.Private(), uint64(max(at.Unix(), 1))
	text, _, _ := bytes.Cut(checkpoint, []byte("\n\n"))
	sig, err := k.Sign(append(text, '\n'))
	if err != nil {
		return "", err
	}
	return noteLine(k, sig), nil
}

// AddCosignature puts the provider's line under the requester's checkpoint and
// verifies the whole.
func AddCosignature(checkpoint []byte, line string, p Parties) ([]byte, error) {
	if len(checkpoint)+len(line) > maxCheckpoint {
		return nil, fmt.Errorf("%w: too long", ErrCheckpoint)
	}
	whole := append(bytes.Clone(checkpoint), line...)
	c, err := VerifyCheckpoint(whole, p)
	if err == nil && !c.Cosigned {
		err = fmt.Errorf("%w: no cosignature in the line", ErrCheckpoint)
	}
	if err != nil {
		return nil, err
	}
	return whole, nil
}

// VerifyCheckpoint verifies the certificates and a checkpoint: the requester's
// signature line, then at most the provider's, in their one spelling. A line
// of anybody else is refused, since nothing would notice if it changed.
func VerifyCheckpoint(checkpoint []byte, p Parties) (Checkpoint, error) {
	bad := func(format string, args ...any) (Checkpoint, error) {
		return Checkpoint{}, fmt.Errorf("%w: %s", ErrCheckpoint, fmt.Sprintf(format, args...))
	}
	if len(checkpoint) > maxCheckpoint {
		return bad("%d bytes, the limit is %d", len(checkpoint), maxCheckpoint)
	}
	if err := p.check(); err != nil {
		return Checkpoint{}, err
	}
	keys := []noteKey{p.host()}
	verifiers := []note.Verifier{keys[0]}
	if len(p.Certs) == 2 {
		keys = append(keys, p.cosigner())
		verifiers = append(verifiers, keys[1])
	}
	n, err := note.Open(checkpoint, note.VerifierList(verifiers...))
	if err != nil {
		return bad("no signature of the requester's log key")
	}
	head, err := parseNoteText(n.Text, keys[0].name)
	if err != nil {
		return bad("%v", err)
	}
	if len(n.UnverifiedSigs) != 0 || len(n.Sigs) > len(keys) {
		return bad("a signature line of somebody else")
	}
	// note.Open takes the lines in any order, skips repeated ones and decodes
	// base64 leniently. Spelling the note again leaves one form.
	c := Checkpoint{Head: head, Cosigned: len(n.Sigs) == 2}
	again := n.Text + "\n"
	for i, s := range n.Sigs {
		raw, err := base64.StdEncoding.Strict().DecodeString(s.Base64)
		if err != nil || s.Name != keys[i].name || len(raw) < 4 {
			return bad("a signature line is out of place")
		}
		again += noteLine(keys[i], raw[4:])
		if i == 1 {
			c.At = time.Unix(int64(binary.BigEndian.Uint64(raw[4:])), 0).UTC()
		}
	}
	if again != string(checkpoint) {
		return bad("not in the canonical spelling")
	}
	return c, nil
}

// noteText is the body: origin, size, root in base64.
func noteText(origin string, h Head) string {
	return origin + "\n" + strconv.FormatUint(h.Size, 10) + "\n" + tlog.Hash(h.Root).String() + "\n"
}

// parseNoteText reads noteText's output and nothing else.
func parseNoteText(text, origin string) (Head, error) {
	lines := strings.Split(text, "\n")
	if len(lines) != 4 || lines[0] != origin {
		return Head{}, errors.New("not a checkpoint of this session's log")
	}
	size, err := strconv.ParseUint(lines[1], 10, 64)
	if err != nil || size == 0 || size > MaxRecords {
		return Head{}, errors.New("size")
	}
	root, err := tlog.ParseHash(lines[2])
	if err != nil {
		return Head{}, errors.New("root")
	}
	h := Head{Size: size, Root: root}
	if noteText(origin, h) != text {
		return Head{}, errors.New("not in the canonical spelling")
	}
	return h, nil
}

// noteLine is a signature line of C2SP signed-note.
func noteLine(k noteKey, sig []byte) string {
	id := binary.BigEndian.AppendUint32(nil, k.KeyHash())
	return "\u2014 " + k.name + " " + base64.StdEncoding.EncodeToString(append(id, sig...)) + "\n"
}
