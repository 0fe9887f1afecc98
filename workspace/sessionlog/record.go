package sessionlog

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weftmesh/weft/protocols/strict"
	"github.com/weftmesh/weft/workspace"
)

// Version is the version of the record format.
const Version = 1

// MaxRecord bounds the encoding of a record. A full one takes about 700 bytes.
const MaxRecord = 2 << 10

// maxNote bounds Note, maxInteger the counters (RFC 7493 section 2.2).
const (
	maxNote    = 200
	maxInteger = 1<<53 - 1
)

// ErrRecord is wrapped when a record is malformed or out of place, for
// instance an allowed call whose id was used before. Nothing was stored.
var ErrRecord = errors.New("bad log record")

// Type says what a record is about.
type Type string

// The types of records. The last four end a session.
const (
	Opened   Type = "opened"
	Call     Type = "call"
	Result   Type = "result"
	Path     Type = "path"
	Paused   Type = "paused"
	Resumed  Type = "resumed"
	Cosigned Type = "cosigned"
	Closed   Type = "closed"
	Killed   Type = "killed"
	Expired  Type = "expired"
	Aborted  Type = "aborted"
)

// Ends reports whether t is one of the four ends of a session.
func (t Type) Ends() bool {
	return t == Closed || t == Killed || t == Expired || t == Aborted
}

// Verdict is the decision of a call record and the outcome of a result record.
type Verdict string

// The verdicts. A call is allowed or denied. A result is ok, failed (it ran
// and could not be done), denied (refused by handle while it ran) or unknown
// (it may have run; the requester restarted meanwhile).
const (
	Allowed Verdict = "allowed"
	Denied  Verdict = "denied"
	OK      Verdict = "ok"
	Failed  Verdict = "failed"
	Unknown Verdict = "unknown"
)

// UnknownTool is the Tool of a call for a tool that doesn't exist. The name
// the provider used is not logged, so it can't make logs and receipts grow.
const UnknownTool = "unknown"

// Record is one entry of the log. Append fills V, Seq, Session and, if zero,
// Time. Members that are empty are left out of the encoding, which is compact
// JSON with the members in this order and nothing else.
type Record struct {
	V       int    `json:"v"`
	Seq     uint64 `json:"seq"`
	Session string `json:"session"`
	// Time is the requester's clock, in unix milliseconds.
	Time int64 `json:"time"`
	Type Type  `json:"type"`
	// Grant is the hex digest of the signed grant; of opened records only.
	Grant string `json:"grant,omitzero"`
	// Call is the id of the call; Tool its tool, UnknownTool if none of ours.
	Call    string  `json:"call,omitzero"`
	Tool    string  `json:"tool,omitzero"`
	Verdict Verdict `json:"verdict,omitzero"`
	// Code is a refusal's workspace.Code or a failure's reason.
	Code string `json:"code,omitzero"`
	// Path, Args, Request and Result are commitments, see Key.Commit.
	Path    string `json:"path,omitzero"`
	Args    string `json:"args,omitzero"`
	Request string `json:"request,omitzero"`
	Result  string `json:"result,omitzero"`
	// Bytes is how many bytes of content a result sent to the provider, and
	// Written how many it wrote into the granted folders. Result records only.
	Bytes   int64 `json:"bytes,omitzero"`
	Written int64 `json:"written,omitzero"`
	// Redacted is how many secrets were taken out of the result.
	Redacted int `json:"redacted,omitzero"`
	// Note is a few public words, such as "relay to direct quic". In an opened
	// record it names the sandbox, which the receipt repeats. Append passes it
	// through Words.
	Note string `json:"note,omitzero"`

	// Fill, if set, is called by Append when Seq is known, to set the
	// commitments, which depend on it; Key.Fill makes one. It may be called
	// more than once, must be quick and must not call the Log.
	Fill func(*Record) `json:"-"`
}

// field is where a commitment is kept.
func (r *Record) field(f Field) *string {
	switch f {
	case FieldPath:
		return &r.Path
	case FieldArgs:
		return &r.Args
	case FieldRequest:
		return &r.Request
	default:
		return &r.Result
	}
}

// Commitment is the record's commitment to a field, "" if it has none.
func (r Record) Commitment(f Field) string { return *r.field(f) }

// Decode reads a leaf of the log. Only the exact encoding of a valid record is
// accepted, so that a leaf has one spelling.
func Decode(leaf []byte) (Record, error) {
	var r Record
	if err := strict.Unmarshal(leaf, MaxRecord, &r); err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	again, err := r.encode()
	if err != nil {
		return Record{}, err
	}
	if string(again) != string(leaf) {
		return Record{}, fmt.Errorf("%w: not in the canonical encoding", ErrRecord)
	}
	return r, nil
}

// encode checks r and makes its leaf.
func (r Record) encode() ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	leaf, err := strict.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	return leaf, nil
}

// check is what one record alone must satisfy.
func (r Record) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrRecord, fmt.Sprintf(format, args...))
	}
	switch {
	case r.V != Version:
		return bad("version %d, this weft reads %d; update the older side", r.V, Version)
	case r.Seq >= MaxRecords:
		return bad("sequence number %d", r.Seq)
	case !ValidSession(r.Session):
		return bad("session id")
	case r.Time <= 0 || r.Time > maxInteger:
		return bad("time %d", r.Time)
	case r.Bytes < 0 || r.Bytes > maxInteger || r.Written < 0 || r.Written > maxInteger || r.Redacted < 0 || int64(r.Redacted) > maxInteger:
		return bad("a counter is negative or beyond 2^53")
	case r.Note != Words(r.Note):
		return bad("note")
	}
	for _, f := range Fields() {
		if c := r.Commitment(f); c != "" {
			if _, err := parseHex(c); err != nil {
				return bad("%s commitment: %v", f, err)
			}
		}
	}
	switch {
	case r.Type == Call || r.Type == Result:
		return r.checkCall(bad)
	case r.Type == Opened:
		if _, err := parseHex(r.Grant); err != nil {
			return bad("grant digest: %v", err)
		}
	case r.Type != Path && r.Type != Paused && r.Type != Resumed && r.Type != Cosigned && !r.Type.Ends():
		return bad("type %q", r.Type)
	}
	if r.Type != Opened && r.Grant != "" {
		return bad("grant digest in a %s record", r.Type)
	}
	if r.Call != "" || r.Tool != "" || r.Verdict != "" || r.Bytes != 0 || r.Written != 0 || r.Redacted != 0 {
		return bad("a %s record is not about a call", r.Type)
	}
	if r.Code != "" && !isWord(r.Code, 32, "_") {
		return bad("code %q", r.Code)
	}
	return nil
}

func (r Record) checkCall(bad func(string, ...any) error) error {
	switch {
	case r.Grant != "":
		return bad("grant digest in a %s record", r.Type)
	case !validCall(r.Call):
		return bad("call id")
	case !isWord(r.Tool, 64, "_"):
		return bad("tool name")
	case r.Code != "" && !isWord(r.Code, 32, "_"):
		return bad("code")
	case r.Code == string(workspace.UnknownTool) && r.Tool != UnknownTool:
		return bad("the name of an unknown tool")
	}
	switch r.Verdict {
	case Denied:
		if !isRefusal(r.Code) {
			return bad("denied with code %q", r.Code)
		}
		if r.Bytes != 0 || r.Written != 0 {
			return bad("bytes in a denied call")
		}
		return nil
	case Allowed:
		if r.Type != Call || r.Code != "" || r.Bytes != 0 || r.Written != 0 || r.Redacted != 0 {
			return bad("an allowed call is an intent: no code, no bytes")
		}
		return nil
	case OK, Failed, Unknown:
		if r.Type != Result || (r.Verdict == OK && r.Code != "") {
			return bad("verdict %s in a %s record with code %q", r.Verdict, r.Type, r.Code)
		}
		return nil
	}
	return bad("verdict %q", r.Verdict)
}

// ValidSession reports whether s can name a session in records and
// checkpoints: 1 to 64 lower-case letters, digits and dashes.
func ValidSession(s string) bool { return isWord(s, 64, "-") }

// Words makes text fit for Note: printable ASCII without slashes, so no path
// gets in, at most 200 bytes. Other characters become underscores.
func Words(text string) string {
	plain := true
	for i := 0; i < len(text); i++ {
		plain = plain && wordByte(text[i])
	}
	if plain && len(text) <= maxNote {
		return text
	}
	b := []byte(strings.ToValidUTF8(text, "_"))
	b = b[:min(len(b), maxNote)]
	for i, c := range b {
		if !wordByte(c) {
			b[i] = '_'
		}
	}
	return string(b)
}

func wordByte(c byte) bool {
	return c >= ' ' && c < 0x7f && c != '/' && c != '\\' && c != '"'
}

// validCall takes UUIDs and whatever else is a short ASCII id.
func validCall(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

// isWord reports whether s is 1 to max lower-case letters, digits and bytes of
// extra.
func isWord(s string, max int, extra string) bool {
	if s == "" || len(s) > max {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && strings.IndexByte(extra, c) < 0 {
			return false
		}
	}
	return true
}

func isRefusal(code string) bool {
	for _, c := range refusals {
		if string(c) == code {
			return true
		}
	}
	return false
}

// refusals is the gate's closed set of codes.
var refusals = workspace.Codes()
