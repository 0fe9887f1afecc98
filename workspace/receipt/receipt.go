package receipt

import (
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/protocols/signed"
	"github.com/weftmesh/weft/protocols/strict"
	"github.com/weftmesh/weft/workspace/sessionlog"
)

// Version is the version of the receipt format.
const Version = 1

// maxPayload bounds a receipt's payload; one takes 3 KiB.
const maxPayload = 64 << 10

// Errors that callers tell apart. Each is wrapped with what is wrong. Errors
// of packages signed, strict and sessionlog are wrapped too.
var (
	// ErrInvalid means that a receipt contradicts itself.
	ErrInvalid = errors.New("invalid receipt")
	// ErrMismatch means that a log, an export or a proof is not what the
	// receipt is about.
	ErrMismatch = errors.New("does not match the receipt")
	// ErrRunning means that a session has no receipt since it has not ended.
	ErrRunning = errors.New("the session has not ended")
)

// Receipt is the payload of the document. Times are unix milliseconds of the
// requester's clock.
type Receipt struct {
	V         int                `json:"v"`
	Session   string             `json:"session"`
	Requester identity.PublicKey `json:"requester"`
	Provider  identity.PublicKey `json:"provider"`
	// Grant is the hex digest of the signed grant.
	Grant    string `json:"grant"`
	OpenedAt int64  `json:"openedAt"`
	ClosedAt int64  `json:"closedAt"`
	// State is how the session ended: closed, killed, expired or aborted.
	State sessionlog.Type `json:"state"`
	// Calls is how many calls were made; Counts splits them by tool and
	// verdict (ok, failed, denied, unknown), and Unknown is how many may or may
	// not have run.
	Calls   uint64            `json:"calls"`
	Counts  sessionlog.Counts `json:"counts"`
	Unknown uint64            `json:"unknown"`
	// BytesRead left the requester's machine in results, BytesWritten went into
	// its folders, and Redacted is how many secrets were taken out of results.
	BytesRead    int64 `json:"bytesRead"`
	BytesWritten int64 `json:"bytesWritten"`
	Redacted     int64 `json:"redacted"`
	// Records is the size of the session log and Root its RFC 6962 root, hex.
	Records uint64 `json:"records"`
	Root    string `json:"root"`
	// Unacked is how many records at the end the provider did not acknowledge.
	// It is 0 exactly when the provider cosigned the checkpoint.
	Unacked uint64 `json:"unacked"`
	// Sandbox is what commands ran in, such as "bubblewrap 0.8.0" or "none".
	Sandbox string `json:"sandbox"`
	// Checkpoint is the C2SP checkpoint of Root, and Certs the certificates of
	// the log keys in it: the requester's, then the provider's if it joined.
	Checkpoint string               `json:"checkpoint"`
	Certs      []sessionlog.KeyCert `json:"certs"`
}

// Build makes the receipt of an ended session from its log and the checkpoint
// of the log's last head. acked is the size of the longest head that the
// provider acknowledged, in a call message or a cosignature.
func Build(log *sessionlog.Log, p sessionlog.Parties, checkpoint []byte, acked uint64) (Receipt, error) {
	t, head := log.Totals(), log.Head()
	if t.End == "" {
		return Receipt{}, fmt.Errorf("%w; close it first (weft stop %s)", ErrRunning, log.Session())
	}
	c, err := sessionlog.VerifyCheckpoint(checkpoint, p)
	if err != nil {
		return Receipt{}, err
	}
	if c.Head != head {
		return Receipt{}, fmt.Errorf("%w: the checkpoint covers %d of %d records", ErrInvalid, c.Head.Size, head.Size)
	}
	r := Receipt{
		V: Version, Session: p.Session, Requester: p.Requester, Provider: p.Provider,
		Grant: t.Grant, OpenedAt: t.OpenedAt, ClosedAt: t.ClosedAt, State: t.End,
		Calls: t.Calls, Counts: t.Counts, Unknown: t.Unknown,
		BytesRead: t.BytesRead, BytesWritten: t.BytesWritten, Redacted: t.Redacted,
		Records: head.Size, Root: hex.EncodeToString(head.Root[:]),
		Sandbox: t.Sandbox, Checkpoint: string(checkpoint), Certs: p.Certs,
	}
	if !c.Cosigned {
		// The end itself can't be acknowledged but by a cosignature.
		r.Unacked = head.Size - min(acked, head.Size-1)
	}
	_, err = r.check()
	return r, err
}

// Sign makes the document with the requester's signature.
func (r Receipt) Sign(key *identity.Key) (*signed.Document, error) {
	if _, err := r.check(); err != nil {
		return nil, err
	}
	if r.Requester != key.Public() {
		return nil, fmt.Errorf("%w: the requester is another key", ErrInvalid)
	}
	payload, err := strict.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode receipt: %w", err)
	}
	return signed.Seal(signed.Receipt, payload, key)
}

// Open reads and verifies a document completely: signatures, certificates,
// checkpoint and every field against the others.
func Open(raw []byte) (Receipt, *signed.Document, error) {
	r, _, doc, err := open(raw)
	return r, doc, err
}

func open(raw []byte) (Receipt, sessionlog.Checkpoint, *signed.Document, error) {
	fail := func(err error) (Receipt, sessionlog.Checkpoint, *signed.Document, error) {
		return Receipt{}, sessionlog.Checkpoint{}, nil, err
	}
	doc, err := signed.Open(raw, signed.Receipt)
	if err != nil {
		return fail(err)
	}
	var r Receipt
	if err := strict.Unmarshal(doc.Payload(), maxPayload, &r); err != nil {
		return fail(err)
	}
	c, err := r.check()
	if err != nil {
		return fail(err)
	}
	s := doc.Signers()
	if s[0] != r.Requester || len(s) > 2 || (len(s) == 2 && s[1] != r.Provider) {
		return fail(fmt.Errorf("%w: signed by others than the requester, then the provider", signed.ErrSignature))
	}
	return r, c, doc, nil
}

// Parties are the sides and certificates that the receipt carries.
func (r Receipt) Parties() sessionlog.Parties {
	return sessionlog.Parties{Session: r.Session, Requester: r.Requester, Provider: r.Provider, Certs: r.Certs}
}

// Countersign is the provider's answer to the requester's receipt: it verifies
// the receipt, compares every number with its own replica of the log and the
// grant it accepted, and signs.
func Countersign(raw []byte, replica *sessionlog.Log, grant string, key *identity.Key) (sig []byte, err error) {
	r, doc, err := Open(raw)
	if err != nil {
		return nil, err
	}
	if r.Provider != key.Public() || r.Session != replica.Session() {
		return nil, fmt.Errorf("%w: the receipt is of another session", ErrMismatch)
	}
	if r.Grant != grant {
		return nil, fmt.Errorf("%w: the receipt is about another grant", ErrMismatch)
	}
	if err := r.matches(replica.Totals(), replica.Head()); err != nil {
		return nil, err
	}
	return doc.Sign(key), nil
}

// AddCountersignature puts the provider's signature to the requester's
// document and verifies the whole.
func AddCountersignature(raw, sig []byte) (*signed.Document, error) {
	r, doc, err := Open(raw)
	if err != nil {
		return nil, err
	}
	return doc.With(r.Provider, sig)
}
