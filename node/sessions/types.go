package sessions

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/weftmesh/weft/workspace/grant"
)

// ShareRequest is the body of POST /v1/share.
type ShareRequest struct {
	Roots        []ShareRoot `json:"roots"`
	With         string      `json:"with"`
	Write        bool        `json:"write"`
	Delete       bool        `json:"delete"`
	Run          []string    `json:"run"`
	AllowNet     bool        `json:"allowNet"`
	Unsandboxed  bool        `json:"unsandboxed"`
	Include      []string    `json:"include"`
	Exclude      []string    `json:"exclude"`
	Seconds      int64       `json:"seconds"`
	Calls        int64       `json:"calls"`
	ReadBytes    int64       `json:"readBytes"`
	WriteBytes   int64       `json:"writeBytes"`
	Rate         int64       `json:"rate"`
	PublishPaths bool        `json:"publishPaths"`
	Task         string      `json:"task"`
}

// ShareRoot is one folder to share.
type ShareRoot struct {
	Name     string `json:"name"`
	Dir      string `json:"dir"`
	ReadOnly bool   `json:"readOnly"`
}

// Shared is the answer to ShareRequest.
type Shared struct {
	SessionID string       `json:"sessionId"`
	GrantHash string       `json:"grantHash"`
	Provider  string       `json:"provider"`
	Roots     []SharedRoot `json:"roots"`
	Commands  []string     `json:"commands"`
	Sandbox   string       `json:"sandbox"`
	ExpiresAt string       `json:"expiresAt"`
	Limits    grant.Limits `json:"limits"`
}

// SharedRoot is a folder as granted.
type SharedRoot struct {
	Name   string `json:"name"`
	Rights string `json:"rights"`
}

// Session is one session as shown.
type Session struct {
	SessionID    string       `json:"sessionId"`
	Role         string       `json:"role"`
	State        string       `json:"state"`
	Reason       string       `json:"reason,omitzero"`
	Peer         string       `json:"peer"`
	PeerName     string       `json:"peerName"`
	Path         string       `json:"path"`
	RTTMS        float64      `json:"rttMs,omitzero"`
	Cipher       string       `json:"cipher"`
	Calls        int64        `json:"calls"`
	Allowed      int64        `json:"allowed"`
	Refused      int64        `json:"refused"`
	BytesRead    int64        `json:"bytesRead"`
	BytesWritten int64        `json:"bytesWritten"`
	LogSize      uint64       `json:"logSize"`
	LogRoot      string       `json:"logRoot"`
	Acked        uint64       `json:"acked,omitzero"`
	Cosigned     bool         `json:"cosigned"`
	Roots        []SharedRoot `json:"roots"`
	Commands     []string     `json:"commands"`
	Task         string       `json:"task,omitzero"`
	Sandbox      string       `json:"sandbox,omitzero"`
	GrantHash    string       `json:"grantHash"`
	ExpiresAt    string       `json:"expiresAt"`
}

// Sessions is the list of sessions.
type Sessions struct {
	Sessions []Session `json:"sessions"`
}

// Offer is an unanswered offer.
type Offer struct {
	SessionID  string       `json:"sessionId"`
	From       string       `json:"from"`
	FromName   string       `json:"fromName"`
	Known      bool         `json:"known"`
	Roots      []SharedRoot `json:"roots"`
	Commands   []string     `json:"commands"`
	Task       string       `json:"task"`
	Network    bool         `json:"network"`
	ReceivedAt string       `json:"receivedAt"`
	ExpiresAt  string       `json:"expiresAt"`
	GrantHash  string       `json:"grantHash"`
}

// Offers is the list of unanswered offers.
type Offers struct {
	Offers []Offer `json:"offers"`
}

// CallRequest is the body of POST /v1/sessions/{id}/call.
type CallRequest struct {
	Tool string         `json:"tool"`
	Args jsontext.Value `json:"args"`
}

// CallResult is the answer: the tool's result.
type CallResult struct {
	CallID  string `json:"callId"`
	Verdict string `json:"verdict"`
	Code    string `json:"code"`
	Kind    string `json:"kind"`
	MIME    string `json:"mime,omitzero"`
	// Text is the result as the agent reads it: header line and content.
	Text string `json:"text"`
	// Data is the content of an image or of binary, base64.
	Data []byte `json:"data,omitzero"`
}

// LogLine is one log record as the owner of this side sees it: with the path
// that the record only commits to.
type LogLine struct {
	Seq      uint64 `json:"seq"`
	Time     string `json:"time"`
	Type     string `json:"type"`
	Tool     string `json:"tool"`
	Verdict  string `json:"verdict"`
	Code     string `json:"code"`
	Path     string `json:"path"`
	Bytes    int64  `json:"bytes"`
	Written  int64  `json:"written"`
	Redacted int    `json:"redacted"`
	Note     string `json:"note"`
	Call     string `json:"call"`
}

// Stopped is the answer to stop, pause, resume and decline.
type Stopped struct {
	SessionID string `json:"sessionId"`
	State     string `json:"state"`
	TookMS    int64  `json:"tookMs"`
}

// StopRequest is the body of pause and stop.
type StopRequest struct {
	Reason string `json:"reason"`
}
