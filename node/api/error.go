package api

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/weftmesh/weft/protocols/strict"
)

// Error is an error that reaches a person: over the API as
// {"error":{"code","message","hint"}}, in a terminal as two lines.
type Error struct {
	// Kind picks the HTTP status and the exit code.
	Kind Kind
	// Code is a stable word for scripts. Empty means the kind's own.
	Code string
	// Message says what is wrong, in lower case.
	Message string
	// Hint is the next step, often a command to type.
	Hint string
}

// Errorf makes an Error of a kind with a formatted message.
func Errorf(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// Try returns e with the next step set.
func (e *Error) Try(format string, args ...any) *Error {
	n := *e
	n.Hint = fmt.Sprintf(format, args...)
	return &n
}

// WithCode returns e with a code of its own.
func (e *Error) WithCode(code string) *Error {
	n := *e
	n.Code = code
	return &n
}

// Error is the message alone: the hint is shown on a line of its own.
func (e *Error) Error() string { return e.Message }

// document is the JSON form, the same on the wire and on stderr.
type document struct {
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Hint    string `json:"hint"`
	} `json:"error"`
}

func (e *Error) document() (d document) {
	// What a peer or the system said may not be text.
	text := func(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
	d.Error.Code, d.Error.Message, d.Error.Hint = text(e.Code), text(e.Message), text(e.Hint)
	if d.Error.Code == "" {
		d.Error.Code = e.Kind.String()
	}
	return d
}

// JSON is the error as one document.
func (e *Error) JSON() []byte {
	raw, err := strict.Marshal(e.document())
	if err != nil {
		panic(err) // three valid strings always encode
	}
	return raw
}

// maxErrorBody bounds the error document that a client reads.
const maxErrorBody = 64 << 10

// parseError reads the document of a response with the given status.
func parseError(status int, body []byte) *Error {
	var d document
	if err := json.Unmarshal(body, &d); err != nil || d.Error.Message == "" {
		return Errorf(kindOf(status), "the daemon answered %d %s", status, http.StatusText(status)).
			Try("weft doctor")
	}
	return &Error{Kind: kindOf(status), Code: d.Error.Code, Message: d.Error.Message, Hint: d.Error.Hint}
}

// writeError answers with the error's document.
func writeError(w http.ResponseWriter, e *Error) {
	body := e.JSON()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Kind.Status())
	w.Write(append(body, '\n'))
}
