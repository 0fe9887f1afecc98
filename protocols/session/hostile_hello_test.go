package session

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/weftmesh/weft/protocols/identity"
)

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
