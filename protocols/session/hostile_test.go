package session

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weftmesh/weft/protocols/identity"
)

// raw is a peer that has finished a handshake and then says what it likes.
type raw struct {
	p   *Channel // whose life it speaks for
	st  Stream
	out *sealer
	in  *opener
}

// rawDial makes the handshake of p's current life by hand.
func rawDial(t testing.TB, p *Channel, st Stream) *raw {
	t.Helper()
	s, err := p.newSecrets()
	if err != nil {
		t.Fatal(err)
	}
	e, err := p.cfg.dial(st, s, func(Boot) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return &raw{p: p, st: st, out: newSealer(e.keys.dial), in: newOpener(st, e.keys.answer)}
}

// frame seals items.
func (r *raw) frame(items ...[]byte) []byte {
	buf := make([]byte, frameHead, maxFrame)
	for _, it := range items {
		buf = append(buf, it...)
	}
	return r.out.seal(buf)
}

// write may fail: the victim may have hung up already.
func (r *raw) write(b []byte) { r.st.Write(b) }

// hangUp ends the stream in good order, though unread data may wait.
func (r *raw) hangUp() { r.st.(connStream).Conn.(*net.TCPConn).CloseWrite() }

// Items by hand.
func resumeItem(next ...position) []byte {
	b := []byte{itemResume}
	for _, p := range next {
		b = binary.AppendUvarint(b, p.seq)
		b = binary.AppendUvarint(b, uint64(p.off))
		b = append(b, 0, 0)
	}
	return b
}

func freshResume() []byte { return resumeItem(position{seq: 1}, position{seq: 1}) }

func dataItem(l Lane, at position, data []byte) []byte {
	return append(appendData(nil, l, at, len(data)), data...)
}

// wireMessage is a message in its lane's byte stream.
func wireMessage(m Message) []byte {
	o := outgoing{msg: m, prefix: m.prefix(), size: m.size()}
	b := make([]byte, o.size)
	o.copyAt(b, 0)
	return b
}

// victim is a requester's channel that has received message 1 of a session that
// goes on: message 2 waits at the provider, message 3 at the requester.
func victim(t *testing.T) (r, p *Channel) {
	r, p = channels(t)
	ctx, cancel := context.WithCancel(deadline(t))
	sa, sd := pipe()
	e := connect(ctx, r, p, sa, sd)
	if err := p.Send(ctx, progress(t, 1, 10)); err != nil {
		t.Fatal(err)
	}
	if got := number(t, receive(t, r)); got != 1 {
		t.Fatalf("got %d", got)
	}
	if err := p.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	e.wait(t)
	for c, n := range map[*Channel]int{p: 2, r: 3} {
		if err := c.Send(deadline(t), progress(t, n, 10)); err != nil {
			t.Fatal(err)
		}
	}
	return r, p
}

// unharmed proves that the session goes on where it was.
func unharmed(t *testing.T, r, p *Channel) {
	t.Helper()
	ctx, cancel := context.WithCancel(deadline(t))
	sa, sd := pipe()
	e := connect(ctx, r, p, sa, sd)
	if got := number(t, receive(t, r)); got != 2 {
		t.Errorf("requester got %d, want 2", got)
	}
	if got := number(t, receive(t, p)); got != 3 {
		t.Errorf("provider got %d, want 3", got)
	}
	if err := errors.Join(r.Drain(ctx), p.Drain(ctx)); err != nil {
		t.Error(err)
	}
	cancel()
	e.wait(t)
	if s := r.State(); s.Held != 0 || s.Queued != 0 || len(r.inbox) != 0 {
		t.Errorf("left over: %+v, %d in the inbox", s, len(r.inbox))
	}
}

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

// lowOrder are X25519 points whose secret is zero (the list of
// cr.yp.to/ecdh.html and its non-canonical twins).
var lowOrder = []string{
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0100000000000000000000000000000000000000000000000000000000000000",
	"e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
	"5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
}

// TestHostileHello: what a dialling side can do before it is proven.
func TestHostileHello(t *testing.T) {
	t.Parallel()
	type hand struct {
		p     *identity.Key
		hello Hello
		st    Stream
	}
	// say sends the hello and returns the transcript after the reply.
	say := func(h *hand) (transcript, reply []byte) {
		rawHello := appendHello(nil, &h.hello)
		h.st.Write(rawHello)
		reply = make([]byte, replySize)
		n, _ := io.ReadFull(h.st, reply)
		if n < replySize {
			return nil, reply[:n]
		}
		return append(rawHello, reply[:replySize-sigSize]...), reply
	}
	attacks := []struct {
		name    string
		want    error
		refusal Refusal
		attack  func(h *hand) []byte // returns what the victim replied
	}{
		{"another session", ErrMismatch, RefuseUnknown, func(h *hand) []byte {
			h.hello.Session = "s-2"
			_, reply := say(h)
			return reply
		}},
		{"another grant", ErrMismatch, RefuseGrant, func(h *hand) []byte {
			h.hello.Grant[0] ^= 1
			_, reply := say(h)
			return reply
		}},
		{"another provider", ErrMismatch, RefuseGrant, func(h *hand) []byte {
			h.hello.Peer = testKey(t, "mallory").Public()
			_, reply := say(h)
			return reply
		}},
		{"meant for another requester", ErrMismatch, RefuseGrant, func(h *hand) []byte {
			h.hello.To = testKey(t, "mallory").Public()
			_, reply := say(h)
			return reply
		}},
		{"finish signed by another key", ErrSignature, 0, func(h *hand) []byte {
			tr, _ := say(h)
			h.st.Write(testKey(t, "mallory").Sign(purposeFinish, tr))
			return nil
		}},
		{"the victim's own signature turned back", ErrSignature, 0, func(h *hand) []byte {
			_, reply := say(h)
			h.st.Write(reply[replySize-sigSize:])
			return nil
		}},
		{"the right key for another purpose", ErrSignature, 0, func(h *hand) []byte {
			tr, _ := say(h)
			h.st.Write(h.p.Sign(purposeReply, tr))
			return nil
		}},
		{"a signature over another ephemeral key", ErrSignature, 0, func(h *hand) []byte {
			tr, _ := say(h)
			tr[len(appendHello(nil, &h.hello))+1] ^= 1
			h.st.Write(h.p.Sign(purposeFinish, tr))
			return nil
		}},
		{"finish cut short", io.ErrUnexpectedEOF, 0, func(h *hand) []byte {
			tr, _ := say(h)
			h.st.Write(h.p.Sign(purposeFinish, tr)[:63])
			return nil
		}},
		{"no finish", io.EOF, 0, func(h *hand) []byte { say(h); return nil }},
		{"a boot id of zero", ErrMalformed, 0, func(h *hand) []byte { h.hello.boot = Boot{}; say(h); return nil }},
		{"version 2", ErrMalformed, 0, func(h *hand) []byte {
			b := appendHello(nil, &h.hello)
			b[7] = 2
			h.st.Write(b)
			return nil
		}},
		{"no session id", ErrMalformed, 0, func(h *hand) []byte { h.hello.Session = ""; say(h); return nil }},
		{"a session id with a slash", ErrMalformed, 0, func(h *hand) []byte { h.hello.Session = "../x"; say(h); return nil }},
		{"a session id of 65 bytes", ErrMalformed, 0, func(h *hand) []byte {
			h.hello.Session = strings.Repeat("s", 65)
			say(h)
			return nil
		}},
		{"an identity of small order", ErrMalformed, 0, func(h *hand) []byte {
			h.hello.Peer = identity.PublicKey{1}
			say(h)
			return nil
		}},
		{"hello cut short", io.ErrUnexpectedEOF, 0, func(h *hand) []byte {
			b := appendHello(nil, &h.hello)
			h.st.Write(b[:len(b)-1])
			return nil
		}},
	}
	for _, point := range lowOrder {
		attacks = append(attacks, struct {
			name    string
			want    error
			refusal Refusal
			attack  func(h *hand) []byte
		}{"ephemeral key " + point[:4], ErrMalformed, 0, func(h *hand) []byte {
			b, err := hex.DecodeString(point)
			if err != nil {
				t.Error(err)
			}
			copy(h.hello.eph[:], b)
			say(h)
			return nil
		}})
	}
	for _, tt := range attacks {
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
			eph, err := ecdh.X25519().GenerateKey(rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			h := &hand{p: p.cfg.Self, st: sd, hello: Hello{Session: "s-1", Grant: testGrant, Peer: p.cfg.Self.Public(), To: p.cfg.Peer, boot: Boot{9}}}
			copy(h.hello.eph[:], eph.PublicKey().Bytes())
			reply := make(chan []byte, 1)
			go func() {
				b := tt.attack(h)
				sd.Close()
				reply <- b
			}()
			if err := within(t, end); !errors.Is(err, tt.want) {
				t.Errorf("ended with %v, want %v", err, tt.want)
			}
			got := within(t, reply)
			if tt.refusal != 0 {
				msg := append(appendHello(nil, &h.hello), byte(tt.refusal))
				if len(got) != refuseSize || got[0] != byte(tt.refusal) || !r.cfg.Self.Public().Verify(purposeRefuse, msg, got[1:]) {
					t.Errorf("refusal %x, want a signed %d", got, tt.refusal)
				}
			}
			if st := r.State(); st.Attaches != 1 {
				t.Errorf("%d attachments", st.Attaches)
			}
			unharmed(t, r, p)
		})
	}
}

// TestHostileReply: what an answering side can do to a dialling one.
func TestHostileReply(t *testing.T) {
	t.Parallel()
	mallory := testKey(t, "mallory")
	for _, tt := range []struct {
		name   string
		want   error
		attack func(r *Channel, h *Hello, st Stream)
	}{
		{"signed by another key", ErrSignature, func(r *Channel, h *Hello, st Stream) {
			cfg := r.cfg
			cfg.Self = mallory
			s, _ := r.newSecrets()
			cfg.answer(st, h, s, func(Boot) error { return nil })
		}},
		{"the hello turned back", ErrSignature, func(r *Channel, h *Hello, st Stream) { st.Write(h.raw) }},
		{"the dialling side's ephemeral key turned back", ErrMismatch, func(r *Channel, h *Hello, st Stream) {
			reply := append([]byte{0}, h.eph[:]...)
			reply = append(reply, make([]byte, 15)...)
			reply = append(reply, 7)
			st.Write(append(reply, r.cfg.Self.Sign(purposeReply, append(bytes.Clone(h.raw), reply...))...))
		}},
		{"the dialling side's boot id turned back", ErrMalformed, func(r *Channel, h *Hello, st Stream) {
			s, _ := r.newSecrets()
			reply := append([]byte{0}, s.eph.PublicKey().Bytes()...)
			reply = append(reply, h.boot[:]...)
			st.Write(append(reply, r.cfg.Self.Sign(purposeReply, append(bytes.Clone(h.raw), reply...))...))
		}},
		{"an ephemeral key of small order", ErrMalformed, func(r *Channel, h *Hello, st Stream) {
			reply := append(make([]byte, 1+32+15), 7)
			st.Write(append(reply, r.cfg.Self.Sign(purposeReply, append(bytes.Clone(h.raw), reply...))...))
		}},
		{"a refusal that isn't signed", ErrSignature, func(r *Channel, h *Hello, st Stream) {
			st.Write(append([]byte{byte(RefuseOver)}, make([]byte, 64)...))
		}},
		{"a refusal signed by another key", ErrSignature, func(r *Channel, h *Hello, st Stream) {
			h.Refuse(st, mallory, RefuseOver)
		}},
		{"a refusal of another hello", ErrSignature, func(r *Channel, h *Hello, st Stream) {
			other := *h
			other.raw = bytes.Clone(h.raw)
			other.raw[len(other.raw)-1] ^= 1
			other.Refuse(st, r.cfg.Self, RefuseOver)
		}},
		{"nothing", io.EOF, func(r *Channel, h *Hello, st Stream) {}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, p := victim(t)
			sa, sd := tcpPair(t)
			end := make(chan error, 1)
			go func() { end <- p.Dial(deadline(t), sd) }()
			h, err := ReadHello(deadline(t), sa)
			if err != nil {
				t.Fatal(err)
			}
			tt.attack(r, h, sa)
			sa.Close()
			if err := within(t, end); !errors.Is(err, tt.want) {
				t.Errorf("ended with %v, want %v", err, tt.want)
			}
			unharmed(t, r, p)
		})
	}
}

// TestRefusalIsTyped: an honest refusal reaches the dialling side as data.
func TestRefusalIsTyped(t *testing.T) {
	t.Parallel()
	for _, reason := range []Refusal{RefuseUnknown, RefuseOver, RefuseGrant, RefuseBusy, RefuseStale} {
		r, p := channels(t)
		sa, sd := tcpPair(t)
		end := make(chan error, 1)
		go func() { end <- p.Dial(deadline(t), sd) }()
		h, err := ReadHello(deadline(t), sa)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Refuse(sa, r.cfg.Self, reason); err != nil {
			t.Error(err)
		}
		err = within(t, end)
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.Reason != reason {
			t.Errorf("%v: got %v", reason, err)
		}
		if errors.Is(err, ErrStale) != (reason == RefuseStale) {
			t.Errorf("%v: ErrStale is %v", reason, errors.Is(err, ErrStale))
		}
	}
}

// TestWrongDirection: with a role, a message that the peer may not send ends
// the attachment before it is stored.
func TestWrongDirection(t *testing.T) {
	t.Parallel()
	rc, pc := configs(t)
	rc.Role = Requester // the provider's Channel has none, so it sends anything
	r, p := New(rc), New(pc)
	t.Cleanup(func() { r.Close(); p.Close() })
	sa, sd := tcpPair(t)
	e := connect(deadline(t), r, p, sa, sd)
	if err := p.Send(deadline(t), progress(t, 1, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := e.wait(t); !errors.Is(err, ErrMismatch) {
		t.Errorf("ended with %v", err)
	}
	if r.State().Held != 0 {
		t.Error("the message was stored")
	}
}

// TestWindowBoundsMemory: a provider that floods is cut off at the window, and
// the process has not grown by more than it.
func TestWindowBoundsMemory(t *testing.T) {
	k := testKey(t, "provider")
	for _, tt := range []struct {
		name  string
		size  int
		count int
	}{
		{"bytes", 1 << 20, 20},
		{"count", 0, 3000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, p := channels(t)
			sa, sd := tcpPair(t)
			end := make(chan error, 1)
			go func() {
				h, err := ReadHello(deadline(t), sa)
				if err == nil {
					err = r.Answer(deadline(t), sa, h)
				}
				end <- err
			}()
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			a := rawDial(t, p, sd)
			a.write(a.frame(freshResume()))
			msg := wireMessage(bulk(t, k, 1, tt.size))
			for n := 1; n <= tt.count; n++ {
				for off := 0; off < len(msg); off += 60 << 10 {
					a.write(a.frame(dataItem(0, position{uint64(n), off}, msg[off:min(len(msg), off+60<<10)])))
				}
			}
			if err := within(t, end); !errors.Is(err, ErrWindow) {
				t.Errorf("ended with %v", err)
			}
			sd.Close()
			runtime.GC()
			runtime.ReadMemStats(&after)
			if held := r.State().Held; held > Window {
				t.Errorf("%d bytes held", held)
			}
			if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > Window+4<<20 {
				t.Errorf("heap grew by %d", grown)
			}
			if len(r.inbox) > maxSpan {
				t.Errorf("%d messages held", len(r.inbox))
			}
		})
	}
}

// TestRestartFloodBoundsMemory: a provider that restarts again and again, each
// time filling the window, holds one window.
func TestRestartFloodBoundsMemory(t *testing.T) {
	rc, pc := configs(t)
	r := New(rc)
	t.Cleanup(func() { r.Close() })
	for range 6 {
		p := New(pc)
		ctx, cancel := context.WithCancel(deadline(t))
		for n := 1; n <= 6; n++ {
			if err := p.Send(ctx, bulk(t, pc.Self, n, 1<<20)); err != nil {
				t.Fatal(err)
			}
		}
		sa, sd := tcpPair(t)
		e := connect(ctx, r, p, sa, sd)
		eventually(t, func() bool { return r.State().Held > 6<<20 })
		cancel()
		e.wait(t)
		p.Close()
		if held := r.State().Held; held > Window {
			t.Fatalf("%d bytes held", held)
		}
	}
	if len(r.inbox) > 6 {
		t.Errorf("%d messages of former lives kept", len(r.inbox)-6)
	}
}

// eventually polls a condition that no event announces.
func eventually(t testing.TB, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	ctx := deadline(t)
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("condition never held")
		}
	}
}

// TestPingFlood: a flood of pings is answered once a write, not once a ping.
func TestPingFlood(t *testing.T) {
	t.Parallel()
	r, p := victim(t)
	sa, sd := pipe()
	ctx, cancel := context.WithCancel(deadline(t))
	end := make(chan error, 1)
	go func() {
		h, err := ReadHello(ctx, sa)
		if err == nil {
			err = r.Answer(ctx, sa, h)
		}
		end <- err
	}()
	a := rawDial(t, p, sd)
	a.write(a.frame(resumeItem(position{seq: 1}, position{seq: 1})))
	// net.Pipe has no buffer and nobody reads, so the victim can't answer; its
	// reader must go on all the same.
	const n = 50_000
	for i := range n {
		a.write(a.frame(binary.BigEndian.AppendUint64([]byte{itemPing}, uint64(i))))
	}
	if got := r.State(); got.FramesOut > 10 {
		t.Errorf("%d frames out for %d pings", got.FramesOut, n)
	}
	cancel()
	within(t, end)
	unharmed(t, r, p)
}
