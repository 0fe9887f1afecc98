package session

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"testing"
)

// TestHostileFrames: each attack ends its attachment with its error and the
// session goes on.
func TestHostileFrames(t *testing.T) {
	t.Parallel()
	at2 := position{seq: 2}
	msg := wireMessage(progress(t, 2, 10)) // what the provider really has next
	// The victim has received message 1 and acknowledged it; it has sent none.
	greet := freshResume
	patch := func(i int, b byte) []byte {
		m := bytes.Clone(msg)
		m[i] = b
		return m
	}
	for _, tt := range []struct {
		name   string
		want   error
		attack func(r *raw)
	}{
		{"a frame repeated", ErrSealed, func(r *raw) {
			f := r.frame(greet())
			r.write(f)
			r.write(f)
		}},
		{"two frames swapped", ErrSealed, func(r *raw) {
			a, b := r.frame(greet()), r.frame(dataItem(0, at2, msg))
			r.write(b)
			r.write(a)
		}},
		{"a frame left out", ErrSealed, func(r *raw) {
			r.write(r.frame(greet()))
			r.frame(dataItem(0, at2, msg))
			r.write(r.frame(dataItem(0, position{seq: 3}, msg)))
		}},
		{"a bit of the length", ErrSealed, func(r *raw) {
			f := r.frame(greet(), dataItem(0, at2, msg))
			f[3] ^= 1
			r.write(append(f, 0))
		}},
		{"a bit of the ciphertext", ErrSealed, func(r *raw) {
			f := r.frame(greet(), dataItem(0, at2, msg))
			f[10] ^= 0x40
			r.write(f)
		}},
		{"a bit of the tag", ErrSealed, func(r *raw) {
			f := r.frame(greet(), dataItem(0, at2, msg))
			f[len(f)-1] ^= 1
			r.write(f)
		}},
		{"cut inside a frame", io.ErrUnexpectedEOF, func(r *raw) {
			f := r.frame(greet(), dataItem(0, at2, msg))
			r.write(f[:len(f)-1])
			r.hangUp()
		}},
		{"cut between frames", io.EOF, func(r *raw) {
			r.write(r.frame(greet()))
			r.hangUp()
		}},
		{"a frame of 4 GiB", ErrTooLarge, func(r *raw) { r.write([]byte{0xff, 0xff, 0xff, 0xff}) }},
		{"a frame one byte too long", ErrTooLarge, func(r *raw) {
			r.write(binary.BigEndian.AppendUint32(nil, maxPlain+frameTag+1))
		}},
		{"an empty frame", ErrMalformed, func(r *raw) { r.write(r.frame()) }},
		{"no length", ErrMalformed, func(r *raw) { r.write(make([]byte, 4)) }},
		{"plaintext", ErrTooLarge, func(r *raw) { r.write([]byte("GET / HTTP/1.1\r\n\r\n")) }},
		{"data before resume", ErrMalformed, func(r *raw) { r.write(r.frame(dataItem(0, at2, msg))) }},
		{"resume twice", ErrMalformed, func(r *raw) { r.write(r.frame(greet(), greet())) }},
		{"an unknown item", ErrMalformed, func(r *raw) { r.write(r.frame(greet(), []byte{0x77})) }},
		{"an unknown lane", ErrMalformed, func(r *raw) { r.write(r.frame(greet(), dataItem(7, at2, msg))) }},
		{"an item cut short", ErrMalformed, func(r *raw) {
			d := dataItem(0, at2, msg)
			r.write(r.frame(greet(), d[:len(d)-1]))
		}},
		{"an empty data item", ErrMalformed, func(r *raw) { r.write(r.frame(greet(), dataItem(0, at2, nil))) }},
		{"message 0", ErrMalformed, func(r *raw) { r.write(r.frame(greet(), dataItem(0, position{}, msg))) }},
		{"a number not in its shortest form", ErrMalformed, func(r *raw) {
			r.write(r.frame(greet(), []byte{itemPing | itemData, 0x82, 0x00, 0, 1, 0}))
		}},
		{"a number beyond 64 bits", ErrMalformed, func(r *raw) {
			r.write(r.frame(greet(), append([]byte{itemAck}, bytes.Repeat([]byte{0xff}, 11)...)))
		}},
		{"a gap of messages", ErrGap, func(r *raw) { r.write(r.frame(greet(), dataItem(0, position{seq: 3}, msg))) }},
		{"a gap inside a message", ErrGap, func(r *raw) {
			r.p.mu.Lock()
			r.p.out[0].end = position{seq: 3} // what the attack sends counts as sent
			r.p.mu.Unlock()
			r.write(r.frame(greet(), dataItem(0, at2, msg[:12]), dataItem(0, position{2, 13}, msg[13:])))
		}},
		{"a message that starts in its middle", ErrGap, func(r *raw) {
			r.write(r.frame(greet(), dataItem(0, position{2, 10}, msg[10:])))
		}},
		{"a message whose head is split", ErrMalformed, func(r *raw) { r.write(r.frame(greet(), dataItem(0, at2, msg[:9]))) }},
		{"bytes behind a message", ErrMalformed, func(r *raw) {
			r.write(r.frame(greet(), dataItem(0, at2, append(bytes.Clone(msg), 0))))
		}},
		{"kind 0", ErrUnknownKind, func(r *raw) { r.write(r.frame(greet(), dataItem(0, at2, patch(0, 0)))) }},
		{"kind 14", ErrUnknownKind, func(r *raw) { r.write(r.frame(greet(), dataItem(0, at2, patch(0, 14)))) }},
		{"kind 255", ErrUnknownKind, func(r *raw) { r.write(r.frame(greet(), dataItem(0, at2, patch(0, 255)))) }},
		{"an unknown flag", ErrMalformed, func(r *raw) { r.write(r.frame(greet(), dataItem(0, at2, patch(1, 2)))) }},
		{"an unsigned call", ErrMalformed, func(r *raw) { r.write(r.frame(greet(), dataItem(0, at2, patch(0, byte(KindCall))))) }},
		{"a signed progress", ErrMalformed, func(r *raw) { r.write(r.frame(greet(), dataItem(0, at2, patch(1, 1)))) }},
		{"a header of 4 GiB", ErrTooLarge, func(r *raw) { r.write(r.frame(greet(), dataItem(0, at2, patch(2, 0xff)))) }},
		{"a body where there is none", ErrTooLarge, func(r *raw) { r.write(r.frame(greet(), dataItem(0, at2, patch(9, 1)))) }},
		{"a body of 4 GiB", ErrTooLarge, func(r *raw) { r.write(r.frame(greet(), dataItem(0, at2, patch(6, 0xff)))) }},
		{"an acknowledgement of what was not sent", ErrMalformed, func(r *raw) {
			r.write(r.frame(greet(), appendAck([]byte{itemAck}, ack{upto: 2})))
		}},
		{"an acknowledgement that wraps around", ErrMalformed, func(r *raw) {
			r.write(r.frame(greet(), appendAck([]byte{itemAck}, ack{upto: 1<<64 - 1, bits: []byte{0xff}})))
		}},
		{"a bit for what was not sent", ErrMalformed, func(r *raw) {
			r.write(r.frame(greet(), appendAck([]byte{itemAck}, ack{bits: []byte{0, 1}})))
		}},
		{"a longer bit field than the span", ErrMalformed, func(r *raw) {
			r.write(r.frame(greet(), appendAck([]byte{itemAck}, ack{bits: make([]byte, maxSpan/8+1)})))
		}},
		{"a resume behind what was sent", ErrMalformed, func(r *raw) {
			r.write(r.frame(resumeItem(position{seq: 9}, position{seq: 1})))
		}},
		{"a resume of message 0", ErrMalformed, func(r *raw) {
			r.write(r.frame(resumeItem(position{}, position{seq: 1})))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, p := victim(t)
			sa, sd := tcpPair(t)
			end := make(chan error, 1)
			go func() {
				h, err := ReadHello(deadline(t), sa)
				if err == nil {
					err = r.Answer(deadline(t), sa, h)
				}
				end <- err
			}()
			a := rawDial(t, p, sd)
			tt.attack(a)
			if err := within(t, end); !errors.Is(err, tt.want) {
				t.Errorf("ended with %v, want %v", err, tt.want)
			}
			sd.Close()
			unharmed(t, r, p)
		})
	}
}

// TestFramesOfAnotherAttachment: a frame captured from one attachment, or one
// session, opens in no other.
func TestFramesOfAnotherAttachment(t *testing.T) {
	t.Parallel()
	r, p := victim(t)
	other, _ := configs(t)
	other.Session = "s-2"
	_, otherP := configs(t)
	otherP.Session = "s-2"
	r2, p2 := New(other), New(otherP)
	t.Cleanup(func() { r2.Close(); p2.Close() })
	capture := func(r, p *Channel) []byte {
		sa, sd := tcpPair(t)
		ctx, cancel := context.WithCancel(deadline(t))
		defer cancel()
		end := make(chan error, 1)
		go func() {
			h, err := ReadHello(ctx, sa)
			if err == nil {
				err = r.Answer(ctx, sa, h)
			}
			end <- err
		}()
		f := rawDial(t, p, sd).frame(freshResume(), dataItem(0, position{seq: 2}, wireMessage(progress(t, 66, 6))))
		cancel()
		within(t, end)
		return f
	}
	for name, f := range map[string][]byte{"an older attachment": capture(r, p), "another session": capture(r2, p2)} {
		sa, sd := tcpPair(t)
		end := make(chan error, 1)
		go func() {
			h, err := ReadHello(deadline(t), sa)
			if err == nil {
				err = r.Answer(deadline(t), sa, h)
			}
			end <- err
		}()
		rawDial(t, p, sd).write(f)
		if err := within(t, end); !errors.Is(err, ErrSealed) {
			t.Errorf("%s: %v", name, err)
		}
		sd.Close()
	}
	unharmed(t, r, p)
}
