package api

import (
	"net"
	"sync"
)

// limitListener accepts at most n connections at once; further ones wait in
// the kernel's queue.
type limitListener struct {
	net.Listener
	slots chan struct{}
	done  chan struct{}
	once  sync.Once
}

func newLimitListener(ln net.Listener, n int) net.Listener {
	return &limitListener{Listener: ln, slots: make(chan struct{}, n), done: make(chan struct{})}
}

func (l *limitListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{TCPConn: c.(*net.TCPConn), free: sync.OnceFunc(func() { <-l.slots })}, nil
}

func (l *limitListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

// limitedConn gives its slot back when it closes. It embeds the TCP connection
// so that CloseWrite stays reachable.
type limitedConn struct {
	*net.TCPConn
	free func()
}

func (c *limitedConn) Close() error {
	err := c.TCPConn.Close()
	c.free()
	return err
}
