package session

import (
	"github.com/go-json-experiment/json/jsontext"
)

// Call asks the requester to run one tool. Its body is ArgsLen bytes of JSON
// arguments and then raw content (a file to write), so content is never JSON.
type Call struct {
	// ID is a UUIDv7 in lower case (RFC 9562). The same ID with the same
	// arguments is the same call, whenever it comes; its time tells how old it
	// is, so that a call is not run long after its provider gave up on it.
	ID string `json:"id"`
	// Seq counts the provider's calls of the session, from 1.
	Seq uint64 `json:"seq"`
	// Tool is the tool's name: lower case letters, digits and underscores.
	Tool    string `json:"tool"`
	ArgsLen int    `json:"args_len"`
	// DeadlineMS is how many milliseconds the provider will wait, 0 for the
	// tool's own limit.
	DeadlineMS int64 `json:"deadline_ms"`
	// Size and Root are the log head that the provider has verified (RFC 6962,
	// hex). The call's signature thereby covers the log so far.
	Size uint64 `json:"size"`
	Root string `json:"root"`
}

// Cancel asks to stop a call. A cancelled call still has a result.
type Cancel struct {
	ID string `json:"id"`
}

// Progress is output of a running call, for people. It may be lost from sight:
// the result repeats what matters.
type Progress struct {
	Call string `json:"call"`
	// N counts the progress messages of the call, from 1.
	N    uint64 `json:"n"`
	Text string `json:"text"`
}

// Result is how a call ended. Its body is the result's bytes.
type Result struct {
	Call string `json:"call"`
	// Verdict is ok, failed, denied or unknown.
	Verdict string `json:"verdict"`
	// Code says why, for a verdict other than ok.
	Code string `json:"code"`
	// Kind is text, image or binary.
	Kind string `json:"kind"`
	MIME string `json:"mime"`
	// Records are the log leaves from First on, byte for byte.
	Records []jsontext.Value `json:"records"`
	First   uint64           `json:"first"`
	// Size and Root are the log head after Records.
	Size uint64 `json:"size"`
	Root string `json:"root"`
}

// Records brings log leaves that belong to no result, or that the provider
// missed.
type Records struct {
	Records []jsontext.Value `json:"records"`
	First   uint64           `json:"first"`
	Size    uint64           `json:"size"`
	Root    string           `json:"root"`
}

// Welcome is the requester's first message of each attachment of two
// processes: what the provider needs to check the log.
type Welcome struct {
	// LogKey is the requester's log subkey (ed25519, hex) and Cert its
	// identity's certificate of it.
	LogKey string `json:"log_key"`
	Cert   []byte `json:"cert"`
	// Grant is the digest of the grant (hex).
	Grant string `json:"grant"`
	// Salt is the key of the log's commitments (32 bytes, hex). Both sides
	// hold it and neither shows it.
	Salt string `json:"salt"`
	// Size and Root are the log head.
	Size uint64 `json:"size"`
	Root string `json:"root"`
	// State is as in State.
	State string `json:"state"`
}

// Joined answers Welcome.
type Joined struct {
	// LogKey is the provider's log subkey (ed25519, hex) and Cert its
	// identity's certificate of it.
	LogKey string `json:"log_key"`
	Cert   []byte `json:"cert"`
	// Size and Root are the head of the provider's replica: records from Size
	// on are what it lacks.
	Size uint64 `json:"size"`
	Root string `json:"root"`
}

// Checkpoint is a C2SP checkpoint with the requester's signature line.
type Checkpoint struct {
	Note string `json:"note"`
}

// Cosign is the provider's signature line for the checkpoint of that size.
type Cosign struct {
	Line string `json:"line"`
	Size uint64 `json:"size"`
}

// State tells the provider how the session stands.
type State struct {
	// State is open, paused, killed, expired, closed, or aborted (the requester
	// restarted and could not go on).
	State string `json:"state"`
	// Reason is one line for people.
	Reason string `json:"reason"`
}

// Leave says that the provider is done.
type Leave struct {
	// Reason is one line for people.
	Reason string `json:"reason"`
}

// Closing carries the receipt that the requester signed.
type Closing struct {
	// Receipt is the signed document (base64 in the header).
	Receipt []byte `json:"receipt"`
}

// Closed carries the provider's signature of that receipt.
type Closed struct {
	// Sig is 64 bytes of ed25519 (base64 in the header).
	Sig []byte `json:"sig"`
}
