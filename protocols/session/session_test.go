package session

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weftmesh/weft/protocols/identity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testDeadline bounds every wait of a test: far above what a loaded machine
// needs, so that reaching it is a failure and not a slow run.
const testDeadline = 3 * time.Minute

// connStream makes a Stream of a net.Conn.
type connStream struct{ net.Conn }

func (s connStream) Reset() error {
	if tcp, ok := s.Conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	return s.Conn.Close()
}

// pipe is two ends of a synchronous in-memory stream.
func pipe() (Stream, Stream) {
	a, b := net.Pipe()
	return connStream{a}, connStream{b}
}

// tcpPair is two ends of a loopback TCP connection.
func tcpPair(t testing.TB) (Stream, Stream) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	type accepted struct {
		c   net.Conn
		err error
	}
	ch := make(chan accepted, 1)
	go func() {
		c, err := l.Accept()
		ch <- accepted{c, err}
	}()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b := <-ch
	if b.err != nil {
		t.Fatal(b.err)
	}
	return connStream{a}, connStream{b.c}
}

// testKey is a fixed key by name.
func testKey(t testing.TB, name string) *identity.Key {
	t.Helper()
	seed := sha256.Sum256([]byte(name))
	k, err := identity.FromSeed(seed[:])
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// testGrant is the grant digest of all tests.
var testGrant = sha256.Sum256([]byte("grant"))

// configs are the two sides of one session: a requester and a provider.
func configs(t testing.TB) (requester, provider Config) {
	r, p := testKey(t, "requester"), testKey(t, "provider")
	requester = Config{Session: "s-1", Grant: testGrant, Self: r, Peer: p.Public()}
	provider = Config{Session: "s-1", Grant: testGrant, Self: p, Peer: r.Public()}
	return requester, provider
}

// channels are two closed-at-end channels of one session.
func channels(t testing.TB) (requester, provider *Channel) {
	rc, pc := configs(t)
	requester, provider = New(rc), New(pc)
	t.Cleanup(func() {
		requester.Close()
		provider.Close()
	})
	return requester, provider
}

// ends are what Dial and Answer returned.
type ends struct{ dial, answer chan error }

// connect attaches b to a over the two ends of a stream, b dialling.
func connect(ctx context.Context, answerer, dialler *Channel, sa, sd Stream) ends {
	e := ends{dial: make(chan error, 1), answer: make(chan error, 1)}
	go func() {
		h, err := ReadHello(ctx, sa)
		if err != nil {
			e.answer <- err
			return
		}
		e.answer <- answerer.Answer(ctx, sa, h)
	}()
	go func() { e.dial <- dialler.Dial(ctx, sd) }()
	return e
}

// wait returns both errors.
func (e ends) wait(t testing.TB) (dial, answer error) {
	t.Helper()
	return within(t, e.dial), within(t, e.answer)
}

// within receives or fails.
func within[T any](t testing.TB, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(testDeadline):
		t.Fatal("nothing within the deadline")
		panic("unreachable")
	}
}

// deadline is a context for one test.
func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	t.Cleanup(cancel)
	return ctx
}

// attachedWithin waits until c is attached (or not).
func attachedWithin(t testing.TB, c *Channel, want bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	for got := range c.Watch(ctx) {
		if got == want {
			return
		}
	}
	t.Fatalf("attached never became %v", want)
}

// callID is a fixed UUID for number n.
func callID(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012x", n) }

// progress makes an unsigned message that names n and holds size bytes of text.
func progress(t testing.TB, n, size int) Message {
	t.Helper()
	m, err := EncodeProgress(Progress{Call: callID(n), N: uint64(n), Text: strings.Repeat("x", size)})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// bulk makes a signed call numbered n with size bytes of content.
func bulk(t testing.TB, k *identity.Key, n, size int) Message {
	t.Helper()
	body := bytes.Repeat([]byte{byte(n)}, size)
	m, err := EncodeCall(Call{ID: callID(n), Seq: uint64(n), Tool: "write_file", Root: strings.Repeat("0", 64)}, body)
	if err != nil {
		t.Fatal(err)
	}
	return Sign(k, "s-1", m)
}

// number reads back what progress or bulk named.
func number(t testing.TB, m Message) int {
	t.Helper()
	switch m.Kind {
	case KindProgress:
		h, err := DecodeProgress(m)
		if err != nil {
			t.Fatal(err)
		}
		return int(h.N)
	case KindCall:
		h, err := DecodeCall(m)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Count(m.Body, []byte{byte(h.Seq)}) != len(m.Body) {
			t.Fatalf("call %d has a foreign byte", h.Seq)
		}
		return int(h.Seq)
	}
	t.Fatalf("unexpected %s", m.Kind)
	return 0
}

// receive takes and finishes the next message.
func receive(t testing.TB, c *Channel) Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	d, err := c.Receive(ctx)
	if err != nil {
		t.Fatal(err)
	}
	d.Done()
	return d.Message
}

func TestBothWaysInOrder(t *testing.T) {
	t.Parallel()
	r, p := channels(t)
	sa, sd := tcpPair(t)
	ctx, cancel := context.WithCancel(deadline(t))
	e := connect(ctx, r, p, sa, sd)
	const n = 500
	var wg sync.WaitGroup
	for _, pair := range [][2]*Channel{{r, p}, {p, r}} {
		wg.Go(func() {
			for i := 1; i <= n; i++ {
				if err := pair[0].Send(ctx, progress(t, i, i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
		wg.Go(func() {
			for i := 1; i <= n; i++ {
				if got := number(t, receive(t, pair[1])); got != i {
					t.Errorf("message %d came as number %d", got, i)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(r.Drain(ctx), p.Drain(ctx)); err != nil {
		t.Error(err)
	}
	cancel()
	dial, answer := e.wait(t)
	for _, err := range []error{dial, answer} {
		if !errors.Is(err, context.Canceled) && !errors.Is(err, io.EOF) {
			t.Errorf("ended with %v", err)
		}
	}
}
