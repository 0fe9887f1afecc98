//go:build unix

package world

import (
	"net"
	"net/netip"
	"sync"
)

// maxDatagram is the largest UDP payload over IPv4.
const maxDatagram = 65507

// udpTap forwards datagrams: one outgoing socket for each source address, as a
// NAT would have it.
type udpTap struct {
	tap *Tap
	in  *net.UDPConn
	to  netip.AddrPort
	wg  sync.WaitGroup

	mu     sync.Mutex // guards below
	out    map[netip.AddrPort]*net.UDPConn
	closed bool
}

func newUDPTap(tap *Tap, ns *netns, to string) (*udpTap, error) {
	addr, err := netip.ParseAddrPort(to)
	if err != nil {
		return nil, err
	}
	in, err := ns.listenUDP()
	if err != nil {
		return nil, err
	}
	u := &udpTap{tap: tap, in: in, to: addr, out: map[netip.AddrPort]*net.UDPConn{}}
	u.wg.Go(u.forward)
	return u, nil
}

func (u *udpTap) port() int { return u.in.LocalAddr().(*net.UDPAddr).Port }

// forward carries datagrams from the node to the relay.
func (u *udpTap) forward() {
	buf := make([]byte, maxDatagram)
	for {
		n, from, err := u.in.ReadFromUDPAddrPort(buf)
		if err != nil {
			return // closed
		}
		if u.tap.refuse() {
			continue
		}
		u.tap.add(u.tap.open(), buf[:n])
		if out := u.socket(from); out != nil {
			out.Write(buf[:n]) // a lost datagram is the sender's to repeat
		}
	}
}

// socket is the outgoing socket for a source.
func (u *udpTap) socket(from netip.AddrPort) *net.UDPConn {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c, ok := u.out[from]; ok || u.closed {
		return c
	}
	c, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(u.to))
	if err != nil {
		return nil
	}
	u.out[from] = c
	u.wg.Go(func() { u.back(c, from) })
	return c
}

// back carries datagrams from the relay to the node.
func (u *udpTap) back(c *net.UDPConn, to netip.AddrPort) {
	buf := make([]byte, maxDatagram)
	for {
		n, err := c.Read(buf)
		if err != nil && u.isClosed() {
			return
		}
		if err != nil || u.tap.refuse() {
			continue // "connection refused" while the relay is down
		}
		u.tap.add(u.tap.open(), buf[:n])
		u.in.WriteToUDPAddrPort(buf[:n], to)
	}
}

func (u *udpTap) isClosed() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.closed
}

func (u *udpTap) close() {
	u.mu.Lock()
	u.closed = true
	for _, c := range u.out {
		c.Close()
	}
	u.mu.Unlock()
	u.in.Close()
	u.wg.Wait()
}
