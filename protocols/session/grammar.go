package session

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/weftmesh/weft/protocols/signed"
	"github.com/weftmesh/weft/protocols/strict"
)

// Limits of header members, in bytes unless the name says otherwise.
const (
	maxSession  = 64
	maxTool     = 64
	maxCode     = 64
	maxMIME     = 128
	maxText     = 4096
	maxReason   = 200
	maxCert     = 4096
	maxNote     = 8192
	maxLine     = 1024
	maxRecord   = 2048
	maxRecords  = 512                // of one message
	maxDeadline = 24 * 3600 * 1000   // ms: a day, longer than any session's call
	maxReceipt  = signed.MaxDocument // before base64
	hexDigest   = 64
)

// bad reports a header member that breaks its grammar.
func bad(kind Kind, member, want string) error {
	return fmt.Errorf("%w: %s.%s: want %s", ErrMalformed, kind, member, want)
}

// isUUID takes the one canonical spelling.
func isUUID(s string) bool {
	id, err := uuid.Parse(s)
	return len(s) == 36 && err == nil && id.String() == s
}

func isHex(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789abcdef") == ""
}

// isName is the grammar of tools and codes.
func isName(s string, max int) bool {
	return len(s) <= max && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// isSession is the grammar of session ids.
func isSession(s string) bool {
	if s == "" || len(s) > maxSession {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.') {
			return false
		}
	}
	return true
}

// isMIME takes printable ASCII, which is wider than RFC 2045 and safe to show.
func isMIME(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return len(s) <= maxMIME
}

// isText is what JSON can carry and strict takes: UTF-8 without NUL.
func isText(s string, max int) bool {
	return len(s) <= max && utf8.ValidString(s) && strings.IndexByte(s, 0) < 0
}

// isReason is one line: no control characters.
func isReason(s string) bool {
	return isText(s, maxReason) && strings.IndexFunc(s, func(r rune) bool { return r < 0x20 || r >= 0x7f && r < 0xa0 }) < 0
}

// isLines is printable ASCII and what notes have beside it: newline, em dash.
func isLines(s string, max int) bool {
	return s != "" && isText(s, max) && strings.IndexFunc(s, func(r rune) bool { return r < 0x20 && r != '\n' || r == 0x7f }) < 0
}

// oneOf reports whether s is a word of the list.
func oneOf(s string, words ...string) bool {
	for _, w := range words {
		if s == w {
			return true
		}
	}
	return false
}

// checkRecords bounds leaves and refuses any that JSON encoding would change,
// since a leaf's hash is over its exact bytes.
func checkRecords(k Kind, rec []jsontext.Value, first, size uint64) error {
	if len(rec) > maxRecords {
		return bad(k, "records", fmt.Sprintf("at most %d", maxRecords))
	}
	for _, r := range rec {
		if len(r) == 0 || len(r) > maxRecord || r[0] != '{' {
			return bad(k, "records", fmt.Sprintf("objects of at most %d bytes", maxRecord))
		}
		if same, err := strict.Marshal(r); err != nil || !bytes.Equal(same, r) {
			return bad(k, "records", "compact JSON")
		}
	}
	if first > size || uint64(len(rec)) > size-first {
		return bad(k, "size", "a head that includes the records")
	}
	return nil
}

func (h Call) check(body int) error {
	switch {
	case !isUUID(h.ID):
		return bad(KindCall, "id", "a UUID in lower case")
	case h.Tool == "" || !isName(h.Tool, maxTool):
		return bad(KindCall, "tool", "lower case letters, digits and underscores")
	case h.ArgsLen < 0 || h.ArgsLen > body:
		return bad(KindCall, "args_len", "a length inside the body")
	case h.DeadlineMS < 0 || h.DeadlineMS > maxDeadline:
		return bad(KindCall, "deadline_ms", "0 to a day")
	case h.Seq == 0:
		return bad(KindCall, "seq", "1 or more")
	case !isHex(h.Root, hexDigest):
		return bad(KindCall, "root", "64 hex digits")
	}
	return nil
}

func (h Cancel) check(int) error {
	if !isUUID(h.ID) {
		return bad(KindCancel, "id", "a UUID in lower case")
	}
	return nil
}

func (h Progress) check(int) error {
	switch {
	case !isUUID(h.Call):
		return bad(KindProgress, "call", "a UUID in lower case")
	case !isText(h.Text, maxText):
		return bad(KindProgress, "text", "at most 4096 bytes of UTF-8 without NUL")
	}
	return nil
}

func (h Result) check(int) error {
	switch {
	case !isUUID(h.Call):
		return bad(KindResult, "call", "a UUID in lower case")
	case !oneOf(h.Verdict, "ok", "failed", "denied", "unknown"):
		return bad(KindResult, "verdict", "ok, failed, denied or unknown")
	case !isName(h.Code, maxCode):
		return bad(KindResult, "code", "lower case letters, digits and underscores")
	case !oneOf(h.Kind, "text", "image", "binary"):
		return bad(KindResult, "kind", "text, image or binary")
	case !isMIME(h.MIME):
		return bad(KindResult, "mime", "printable ASCII")
	case !isHex(h.Root, hexDigest):
		return bad(KindResult, "root", "64 hex digits")
	}
	return checkRecords(KindResult, h.Records, h.First, h.Size)
}

func (h Records) check(int) error {
	if !isHex(h.Root, hexDigest) {
		return bad(KindRecords, "root", "64 hex digits")
	}
	return checkRecords(KindRecords, h.Records, h.First, h.Size)
}

func (h Welcome) check(int) error {
	switch {
	case !isHex(h.LogKey, hexDigest):
		return bad(KindWelcome, "log_key", "64 hex digits")
	case len(h.Cert) > maxCert:
		return bad(KindWelcome, "cert", "at most 4096 bytes")
	case !isHex(h.Grant, hexDigest):
		return bad(KindWelcome, "grant", "64 hex digits")
	case !isHex(h.Salt, hexDigest):
		return bad(KindWelcome, "salt", "64 hex digits")
	case !isHex(h.Root, hexDigest):
		return bad(KindWelcome, "root", "64 hex digits")
	case !isState(h.State):
		return bad(KindWelcome, "state", "open, paused, killed, expired, closed or aborted")
	}
	return nil
}

func (h Joined) check(int) error {
	switch {
	case !isHex(h.LogKey, hexDigest):
		return bad(KindJoined, "log_key", "64 hex digits")
	case len(h.Cert) > maxCert:
		return bad(KindJoined, "cert", "at most 4096 bytes")
	case !isHex(h.Root, hexDigest):
		return bad(KindJoined, "root", "64 hex digits")
	}
	return nil
}

func (h Checkpoint) check(int) error {
	if !isLines(h.Note, maxNote) {
		return bad(KindCheckpoint, "note", "at most 8192 bytes of printable lines")
	}
	return nil
}

func (h Cosign) check(int) error {
	if !isLines(h.Line, maxLine) {
		return bad(KindCosign, "line", "at most 1024 printable bytes")
	}
	return nil
}

// isState is the closed set of session states.
func isState(s string) bool {
	return oneOf(s, "open", "paused", "killed", "expired", "closed", "aborted")
}

func (h State) check(int) error {
	switch {
	case !isState(h.State):
		return bad(KindState, "state", "open, paused, killed, expired, closed or aborted")
	case !isReason(h.Reason):
		return bad(KindState, "reason", "one line of at most 200 bytes")
	}
	return nil
}

func (h Leave) check(int) error {
	if !isReason(h.Reason) {
		return bad(KindLeave, "reason", "one line of at most 200 bytes")
	}
	return nil
}

func (h Closing) check(int) error {
	if len(h.Receipt) == 0 || len(h.Receipt) > maxReceipt {
		return bad(KindClosing, "receipt", "a signed document")
	}
	return nil
}

func (h Closed) check(int) error {
	if len(h.Sig) != ed25519.SignatureSize {
		return bad(KindClosed, "sig", "64 bytes")
	}
	return nil
}
