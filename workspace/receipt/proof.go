package receipt

import (
	"encoding/hex"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/protocols/strict"
	"github.com/weftmesh/weft/workspace/sessionlog"
)

// proofFormat names the proof file's format and version.
const proofFormat = "weft session proof v1"

// MaxProof bounds a proof file. A call's arguments have at most 4 MiB and its
// result too, and base64 takes a third more.
const MaxProof = 16 << 20

// proofFile is the file. Proof is a C2SP tlog-proof@v1 as it is, so that other
// tools can verify it: jq -j .proof, and jq -j .leaf for the entry.
type proofFile struct {
	Format    string               `json:"format"`
	Session   string               `json:"session"`
	Requester identity.PublicKey   `json:"requester"`
	Provider  identity.PublicKey   `json:"provider"`
	Certs     []sessionlog.KeyCert `json:"certs"`
	Leaf      string               `json:"leaf"`
	Openings  []opening            `json:"openings"`
	Proof     string               `json:"proof"`
}

// opening discloses one committed value of the record.
type opening struct {
	Field sessionlog.Field `json:"field"`
	Salt  string           `json:"salt"`
	Value []byte           `json:"value"`
}

// Prove makes the proof file of one record: that it is in the log under the
// checkpoint, and what the values in disclose were. A nil value stays secret.
// For a closed session, take Parties and Checkpoint from the receipt.
func Prove(log *sessionlog.Log, p sessionlog.Parties, checkpoint []byte, seq uint64, key sessionlog.Key, disclose sessionlog.Values) ([]byte, error) {
	proof, err := log.Prove(seq, checkpoint, p)
	if err != nil {
		return nil, err
	}
	leaves, err := log.Leaves(seq, 1)
	if err != nil {
		return nil, err
	}
	f := proofFile{
		Format: proofFormat, Session: p.Session, Requester: p.Requester, Provider: p.Provider,
		Certs: p.Certs, Leaf: string(leaves[0]), Openings: []opening{}, Proof: string(proof),
	}
	for _, field := range sessionlog.Fields() {
		if value := disclose.Get(field); value != nil {
			salt := key.Salt(field, seq)
			f.Openings = append(f.Openings, opening{field, salt.Hex(), value})
		}
	}
	raw, err := strict.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("encode proof: %w", err)
	}
	if _, err := Check(raw, nil); err != nil {
		return nil, fmt.Errorf("prove record %d: %w", seq, err)
	}
	return raw, nil
}

// Disclosed is what a verified proof says.
type Disclosed struct {
	// Valid is always true: an invalid proof gives an error instead.
	Valid     bool               `json:"valid"`
	Session   string             `json:"session"`
	Requester identity.PublicKey `json:"requester"`
	Provider  identity.PublicKey `json:"provider"`
	Seq       uint64             `json:"seq"`
	Record    sessionlog.Record  `json:"record"`
	// Opened are the disclosed values, in the order of sessionlog.Fields.
	Opened []Opened `json:"opened"`
	// Records is the size of the log that the proof's checkpoint covers, and
	// Cosigned says that the provider cosigned that checkpoint.
	Records  uint64 `json:"records"`
	Root     string `json:"root"`
	Cosigned bool   `json:"cosigned"`
	// Receipt says that the proof was checked against a receipt too.
	Receipt bool `json:"receipt"`
}

// Opened is one disclosed value: as Text if it is UTF-8, else as Bytes.
type Opened struct {
	Field sessionlog.Field `json:"field"`
	Text  string           `json:"text,omitzero"`
	Bytes []byte           `json:"bytes,omitzero"`
}

// Value is the disclosed value of a field. ok is false if it stayed secret.
func (d Disclosed) Value(f sessionlog.Field) (value []byte, ok bool) {
	for _, o := range d.Opened {
		if o.Field == f && o.Bytes != nil {
			return o.Bytes, true
		} else if o.Field == f {
			return []byte(o.Text), true
		}
	}
	return nil, false
}

// Check verifies a proof file offline. With a receipt (nil for none), the
// proof must be of that receipt's session and log.
func Check(raw, rawReceipt []byte) (Disclosed, error) {
	var f proofFile
	if err := strict.Unmarshal(raw, MaxProof, &f); err != nil {
		return Disclosed{}, err
	}
	if again, err := strict.Marshal(f); err != nil || string(again) != string(raw) || f.Format != proofFormat {
		return Disclosed{}, fmt.Errorf("%w: not the compact encoding of a session proof", strict.ErrInput)
	}
	p := sessionlog.Parties{Session: f.Session, Requester: f.Requester, Provider: f.Provider, Certs: f.Certs}
	rec, c, err := sessionlog.CheckProof([]byte(f.Proof), []byte(f.Leaf), p)
	if err != nil {
		return Disclosed{}, err
	}
	d := Disclosed{
		Valid: true, Session: f.Session, Requester: f.Requester, Provider: f.Provider,
		Seq: rec.Seq, Record: rec, Opened: []Opened{},
		Records: c.Head.Size, Root: hex.EncodeToString(c.Head.Root[:]), Cosigned: c.Cosigned,
	}
	if err := d.open(f.Openings); err != nil {
		return Disclosed{}, err
	}
	if rawReceipt == nil {
		return d, nil
	}
	r, _, err := Open(rawReceipt)
	if err != nil {
		return Disclosed{}, fmt.Errorf("receipt: %w", err)
	}
	if r.Session != d.Session || r.Requester != d.Requester || r.Provider != d.Provider {
		return Disclosed{}, fmt.Errorf("%w: the proof is of session %s", ErrMismatch, d.Session)
	}
	if r.Records != d.Records || r.Root != d.Root {
		return Disclosed{}, fmt.Errorf("%w: the proof is under a head of %d records, the receipt has %d; make it again from the closed session", ErrMismatch, d.Records, r.Records)
	}
	d.Receipt = true
	return d, nil
}

// open checks the openings, each field once and in order, against the record's
// commitments.
func (d *Disclosed) open(openings []opening) error {
	fields := sessionlog.Fields()
	for _, o := range openings {
		bad := func(why string) error {
			return fmt.Errorf("%w: opening of %.20q: %s", sessionlog.ErrProof, o.Field, why)
		}
		i := slices.Index(fields, o.Field)
		if i < 0 {
			return bad("no such field, or out of order")
		}
		fields = fields[i+1:]
		salt, err := sessionlog.ParseSalt(o.Salt)
		if err != nil {
			return bad("salt")
		}
		if !salt.Opens(o.Field, o.Value, d.Record.Commitment(o.Field)) {
			return bad("the record commits to another value")
		}
		if utf8.Valid(o.Value) {
			d.Opened = append(d.Opened, Opened{Field: o.Field, Text: string(o.Value)})
		} else {
			d.Opened = append(d.Opened, Opened{Field: o.Field, Bytes: o.Value})
		}
	}
	return nil
}
