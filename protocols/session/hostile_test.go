package session

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"testing"
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
