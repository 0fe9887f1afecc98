package offer

import (
	"fmt"
	"io"
	"time"

	"github.com/weftmesh/weft/protocols/frame"
	"github.com/weftmesh/weft/protocols/signed"
	"github.com/weftmesh/weft/protocols/strict"
)

// Protocol is the libp2p protocol id.
const Protocol = "/weft/offer/1"

// patience bounds a whole exchange.
const patience = 10 * time.Second

// maxReply bounds the answer: an outcome and one sentence.
const maxReply = 4 << 10

// Outcome says what became of an offer.
type Outcome string

// The outcomes.
const (
	Received Outcome = "received"
	Known    Outcome = "known"
	Busy     Outcome = "busy"
	Refused  Outcome = "refused"
)

// Reply is the provider's answer.
type Reply struct {
	Outcome Outcome `json:"outcome"`
	Hint    string  `json:"hint"`
}

// Stream is what the exchange needs of a stream.
type Stream interface {
	io.ReadWriteCloser
	SetDeadline(time.Time) error
	Reset() error
}

// Call sends a grant and waits for the answer. It closes the stream.
func Call(s Stream, grant []byte) (reply Reply, err error) {
	defer resetOn(s, &err)
	if err := s.SetDeadline(time.Now().Add(patience)); err != nil {
		return Reply{}, err
	}
	if err := frame.Write(s, grant); err != nil {
		return Reply{}, fmt.Errorf("send offer: %w", err)
	}
	raw, err := frame.Read(s, maxReply)
	if err != nil {
		return Reply{}, fmt.Errorf("read the answer to an offer: %w", err)
	}
	if reply, err = DecodeReply(raw); err != nil {
		return Reply{}, err
	}
	return reply, s.Close()
}

// Serve receives one grant, asks decide and sends its answer.
func Serve(s Stream, decide func(grant []byte) Reply) (err error) {
	defer resetOn(s, &err)
	if err := s.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	raw, err := frame.Read(s, signed.MaxDocument)
	if err != nil {
		return fmt.Errorf("read offer: %w", err)
	}
	out, err := strict.Marshal(decide(raw))
	if err != nil {
		return err
	}
	if err := frame.Write(s, out); err != nil {
		return fmt.Errorf("answer offer: %w", err)
	}
	return s.Close()
}

// resetOn resets the stream after an error only: on QUIC a reset behind a close
// drops what is still on its way, and the other side never reads the answer.
func resetOn(s Stream, err *error) {
	if *err != nil {
		s.Reset()
	}
}

// DecodeReply reads a reply.
func DecodeReply(raw []byte) (Reply, error) {
	var r Reply
	if err := strict.Unmarshal(raw, maxReply, &r); err != nil {
		return Reply{}, err
	}
	switch r.Outcome {
	case Received, Known, Busy, Refused:
		return r, nil
	}
	return Reply{}, fmt.Errorf("%w: outcome %q", strict.ErrInput, r.Outcome)
}
