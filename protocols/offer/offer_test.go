package offer

import (
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/weftmesh/weft/protocols/frame"
	"github.com/weftmesh/weft/protocols/signed"
	"github.com/weftmesh/weft/protocols/strict"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// end is a pipe end that remembers how it was ended.
type end struct {
	net.Conn
	closed, reset atomic.Int32
}

func (e *end) Close() error { e.closed.Add(1); return e.Conn.Close() }
func (e *end) Reset() error { e.reset.Add(1); return e.Conn.Close() }

func ends() (asking, answering *end) {
	a, b := net.Pipe()
	return &end{Conn: a}, &end{Conn: b}
}

// TestExchange: the grant and the answer arrive as they were sent, and neither
// side resets a stream that it has closed: on QUIC that would take the answer
// back.
func TestExchange(t *testing.T) {
	t.Parallel()
	for _, want := range []Reply{{Outcome: Received}, {Outcome: Known}, {Outcome: Busy, Hint: "later"}, {Outcome: Refused, Hint: "not for me"}} {
		a, b := ends()
		var got string
		var served error
		var wg sync.WaitGroup
		wg.Go(func() {
			served = Serve(b, func(grant []byte) Reply { got = string(grant); return want })
		})
		reply, err := Call(a, []byte("a grant"))
		wg.Wait()
		if err != nil || served != nil || reply != want || got != "a grant" {
			t.Errorf("%s: got %+v, %v, %v, %q", want.Outcome, reply, err, served, got)
		}
		if a.reset.Load()+b.reset.Load() != 0 || a.closed.Load() != 1 || b.closed.Load() != 1 {
			t.Errorf("%s: reset %d and %d times, closed %d and %d times", want.Outcome, a.reset.Load(), b.reset.Load(), a.closed.Load(), b.closed.Load())
		}
	}
}

// TestServeRefuses: what is no offer is never shown to decide, and the stream
// is reset.
func TestServeRefuses(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string][]byte{
		"nothing":            nil,
		"a length alone":     {0x05},
		"over the limit":     {0xff, 0xff, 0xff, 0x7f},
		"a long prefix":      {0x80, 0x80, 0x80, 0x80, 0x80, 0x80},
		"length not minimal": {0x81, 0x00, 0x00},
	} {
		a, b := ends()
		var wg sync.WaitGroup
		wg.Go(func() { // ends when the other side resets
			a.Write(raw)
			a.Close()
		})
		err := Serve(b, func([]byte) Reply { t.Errorf("%s reached the decision", name); return Reply{Outcome: Received} })
		wg.Wait()
		if err == nil || b.reset.Load() != 1 {
			t.Errorf("%s: %v, reset %d times", name, err, b.reset.Load())
		}
	}
}

// TestCallRefuses: an answer that is none ends in an error and a reset.
func TestCallRefuses(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"no JSON":           "received",
		"another outcome":   `{"outcome":"accepted","hint":""}`,
		"an unknown word":   `{"outcome":"received","hint":"","command":"rm"}`,
		"two outcomes":      `{"outcome":"refused","outcome":"received","hint":""}`,
		"longer than 4 KiB": `{"outcome":"busy","hint":"` + strings.Repeat("x", maxReply) + `"}`,
	} {
		a, b := ends()
		var wg sync.WaitGroup
		wg.Go(func() {
			defer b.Close()
			if _, err := frame.Read(b, signed.MaxDocument); err == nil {
				frame.Write(b, []byte(answer))
			}
		})
		_, err := Call(a, []byte("a grant"))
		wg.Wait()
		if !errors.Is(err, strict.ErrInput) && !errors.Is(err, frame.ErrFrame) || a.reset.Load() != 1 {
			t.Errorf("%s: %v, reset %d times", name, err, a.reset.Load())
		}
	}
}

func FuzzDecodeReply(f *testing.F) {
	f.Add([]byte(`{"outcome":"received","hint":""}`))
	f.Add([]byte(`{"outcome":"busy","hint":"later"}`))
	f.Add([]byte(`{"outcome":"","hint":null}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := DecodeReply(raw)
		if err != nil {
			return
		}
		switch r.Outcome {
		case Received, Known, Busy, Refused:
		default:
			t.Fatalf("outcome %q was taken", r.Outcome)
		}
	})
}
