//go:build unix

package world

import (
	"io"
	"net"
	"sync"
	"time"
)

// dialPatience bounds the tap's own connection to the relay.
const dialPatience = 10 * time.Second

// tcpTap forwards connections. Its accept loop and each direction of each
// connection are goroutines that close waits for.
type tcpTap struct {
	tap *Tap
	l   *net.TCPListener
	to  string
	wg  sync.WaitGroup

	mu     sync.Mutex // guards below
	conns  map[net.Conn]struct{}
	closed bool
}

func newTCPTap(tap *Tap, ns *netns, to string) (*tcpTap, error) {
	l, err := ns.listenTCP()
	if err != nil {
		return nil, err
	}
	t := &tcpTap{tap: tap, l: l, to: to, conns: map[net.Conn]struct{}{}}
	t.wg.Go(t.accept)
	return t, nil
}

func (t *tcpTap) port() int { return t.l.Addr().(*net.TCPAddr).Port }

func (t *tcpTap) accept() {
	for {
		in, err := t.l.Accept()
		if err != nil {
			return // closed
		}
		t.wg.Go(func() { t.forward(in) })
	}
}

// forward joins two connections until either ends.
func (t *tcpTap) forward(in net.Conn) {
	defer in.Close()
	if t.tap.refuse() {
		return
	}
	out, err := net.DialTimeout("tcp", t.to, dialPatience)
	if err != nil {
		return // the relay is down: so is this connection
	}
	defer out.Close()
	if !t.hold(in, out) {
		return
	}
	defer t.release(in, out)
	var both sync.WaitGroup
	copyAll := func(dst, src net.Conn) {
		io.Copy(io.MultiWriter(recorder{t.tap, t.tap.open()}, dst), src)
		// One direction's end is the connection's: neither yamux nor TLS
		// uses half-closed connections.
		dst.Close()
		src.Close()
	}
	both.Go(func() { copyAll(out, in) })
	both.Go(func() { copyAll(in, out) })
	both.Wait()
}

// recorder writes into a flow; it comes before the wire, so nothing passes
// unrecorded.
type recorder struct {
	tap *Tap
	f   *flow
}

func (r recorder) Write(b []byte) (int, error) {
	r.tap.add(r.f, b)
	return len(b), nil
}

// hold remembers connections for breakAll; false when the tap is closed.
func (t *tcpTap) hold(conns ...net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	for _, c := range conns {
		t.conns[c] = struct{}{}
	}
	return true
}

func (t *tcpTap) release(conns ...net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range conns {
		delete(t.conns, c)
	}
}

func (t *tcpTap) breakAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.conns {
		c.Close()
	}
}

func (t *tcpTap) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.l.Close()
	t.breakAll()
	t.wg.Wait()
}
