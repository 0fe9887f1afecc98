package session

import (
	"fmt"

	"github.com/weftmesh/weft/protocols/strict"
)

// header is a typed header that knows its grammar; body is the message's body
// length.
type header interface{ check(body int) error }

// encode makes a message after the checks that its reader will make, so a bug
// here fails the caller instead of the peer's attachment.
func encode(k Kind, h header, body []byte) (Message, error) {
	if err := h.check(len(body)); err != nil {
		return Message{}, err
	}
	b, err := strict.Marshal(h)
	if err != nil {
		return Message{}, fmt.Errorf("encode %s: %w", k, err)
	}
	r := rules[k]
	if len(b) > r.header || len(body) > r.body {
		return Message{}, fmt.Errorf("%w: %s of %d+%d bytes, the limits are %d+%d", ErrTooLarge, k, len(b), len(body), r.header, r.body)
	}
	return Message{Kind: k, Header: b, Body: body}, nil
}

// decode reads a typed header from a message of kind k.
func decode[T header](k Kind, m Message) (T, error) {
	var h, none T
	if m.Kind != k {
		return none, fmt.Errorf("%w: a %s where a %s was wanted", ErrMalformed, m.Kind, k)
	}
	if err := strict.Unmarshal(m.Header, rules[k].header, &h); err != nil {
		return none, fmt.Errorf("%w: %s: %w", ErrMalformed, k, err)
	}
	if len(m.Body) > rules[k].body {
		return none, fmt.Errorf("%w: %s body of %d bytes, the limit is %d", ErrTooLarge, k, len(m.Body), rules[k].body)
	}
	if err := h.check(len(m.Body)); err != nil {
		return none, err
	}
	return h, nil
}

// EncodeCall makes a call whose body is h.ArgsLen bytes of arguments and then
// content. It must be signed before Send.
func EncodeCall(h Call, body []byte) (Message, error) { return encode(KindCall, h, body) }

// DecodeCall reads a call's header; Split divides its body.
func DecodeCall(m Message) (Call, error) { return decode[Call](KindCall, m) }

// Split divides a call's body into its JSON arguments and its raw content.
func (h Call) Split(body []byte) (args, content []byte) {
	return body[:h.ArgsLen:h.ArgsLen], body[h.ArgsLen:]
}

// EncodeCancel makes a cancel message.
func EncodeCancel(h Cancel) (Message, error) { return encode(KindCancel, h, nil) }

// DecodeCancel reads a cancel message.
func DecodeCancel(m Message) (Cancel, error) { return decode[Cancel](KindCancel, m) }

// EncodeProgress makes a progress message.
func EncodeProgress(h Progress) (Message, error) { return encode(KindProgress, h, nil) }

// DecodeProgress reads a progress message.
func DecodeProgress(m Message) (Progress, error) { return decode[Progress](KindProgress, m) }

// EncodeResult makes a result whose body is the result's bytes. It must be
// signed before Send.
func EncodeResult(h Result, body []byte) (Message, error) { return encode(KindResult, h, body) }

// DecodeResult reads a result's header.
func DecodeResult(m Message) (Result, error) { return decode[Result](KindResult, m) }

// EncodeRecords makes a records message. It must be signed before Send.
func EncodeRecords(h Records) (Message, error) { return encode(KindRecords, h, nil) }

// DecodeRecords reads a records message.
func DecodeRecords(m Message) (Records, error) { return decode[Records](KindRecords, m) }

// EncodeWelcome makes a welcome message.
func EncodeWelcome(h Welcome) (Message, error) { return encode(KindWelcome, h, nil) }

// DecodeWelcome reads a welcome message.
func DecodeWelcome(m Message) (Welcome, error) { return decode[Welcome](KindWelcome, m) }

// EncodeJoined makes a joined message.
func EncodeJoined(h Joined) (Message, error) { return encode(KindJoined, h, nil) }

// DecodeJoined reads a joined message.
func DecodeJoined(m Message) (Joined, error) { return decode[Joined](KindJoined, m) }

// EncodeCheckpoint makes a checkpoint message.
func EncodeCheckpoint(h Checkpoint) (Message, error) { return encode(KindCheckpoint, h, nil) }

// DecodeCheckpoint reads a checkpoint message.
func DecodeCheckpoint(m Message) (Checkpoint, error) { return decode[Checkpoint](KindCheckpoint, m) }

// EncodeCosign makes a cosign message.
func EncodeCosign(h Cosign) (Message, error) { return encode(KindCosign, h, nil) }

// DecodeCosign reads a cosign message.
func DecodeCosign(m Message) (Cosign, error) { return decode[Cosign](KindCosign, m) }

// EncodeState makes a state message.
func EncodeState(h State) (Message, error) { return encode(KindState, h, nil) }

// DecodeState reads a state message.
func DecodeState(m Message) (State, error) { return decode[State](KindState, m) }

// EncodeLeave makes a leave message.
func EncodeLeave(h Leave) (Message, error) { return encode(KindLeave, h, nil) }

// DecodeLeave reads a leave message.
func DecodeLeave(m Message) (Leave, error) { return decode[Leave](KindLeave, m) }

// EncodeClosing makes a closing message.
func EncodeClosing(h Closing) (Message, error) { return encode(KindClosing, h, nil) }

// DecodeClosing reads a closing message.
func DecodeClosing(m Message) (Closing, error) { return decode[Closing](KindClosing, m) }

// EncodeClosed makes a closed message.
func EncodeClosed(h Closed) (Message, error) { return encode(KindClosed, h, nil) }

// DecodeClosed reads a closed message.
func DecodeClosed(m Message) (Closed, error) { return decode[Closed](KindClosed, m) }
