package lan

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/time/rate"
)

var (
	group4 = &net.UDPAddr{IP: net.IPv4(224, 0, 0, 251), Port: 5353}
	group6 = &net.UDPAddr{IP: net.ParseIP("ff02::fb"), Port: 5353}
)

// sendWait bounds one write to a socket.
const sendWait = time.Second

// sockets are the multicast sockets and the interfaces they have joined.
type sockets struct {
	v4      *ipv4.PacketConn
	v6      *ipv6.PacketConn
	ifs     []net.Interface
	readers sync.WaitGroup
}

// listen opens the sockets, joins every interface that can multicast, and
// starts the readers. One family on one interface is enough.
func (s *Service) listen(limit *rate.Limiter) (*sockets, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	n := &sockets{}
	loop := map[int]bool{}
	for _, i := range all {
		if i.Flags&net.FlagUp != 0 && i.Flags&net.FlagMulticast != 0 {
			n.ifs = append(n.ifs, i)
			loop[i.Index] = i.Flags&net.FlagLoopback != 0
		}
	}
	if len(n.ifs) == 0 {
		return nil, errors.New("no interface can multicast")
	}
	var errs []error
	// A multicast address makes Go set SO_REUSEADDR, so several nodes and the
	// system's own responder share the port.
	if c, err := net.ListenPacket("udp4", group4.String()); err != nil {
		errs = append(errs, err)
	} else {
		n.v4 = ipv4.NewPacketConn(c)
		errs = append(errs, n.setup4())
	}
	if c, err := net.ListenPacket("udp6", group6.String()); err != nil {
		errs = append(errs, err)
	} else {
		n.v6 = ipv6.NewPacketConn(c)
		errs = append(errs, n.setup6())
	}
	if n.v4 == nil && n.v6 == nil {
		return nil, fmt.Errorf("open multicast sockets: %w", errors.Join(errs...))
	}
	n.read(s, limit, loop)
	return n, nil
}

// setup4 joins and tunes the IPv4 socket, or closes it.
func (n *sockets) setup4() error {
	joined := 0
	for i := range n.ifs {
		if n.v4.JoinGroup(&n.ifs[i], &net.UDPAddr{IP: group4.IP}) == nil {
			joined++
		}
	}
	err := errors.Join(n.v4.SetControlMessage(ipv4.FlagInterface|ipv4.FlagDst, true),
		n.v4.SetMulticastTTL(255), n.v4.SetMulticastLoopback(true)) // nodes on one machine find each other
	if joined == 0 || err != nil {
		n.v4.Close()
		n.v4 = nil
		return fmt.Errorf("join IPv4 multicast on %d of %d interfaces: %w", joined, len(n.ifs), errors.Join(err, errJoin))
	}
	return nil
}

// setup6 joins and tunes the IPv6 socket, or closes it.
func (n *sockets) setup6() error {
	joined := 0
	for i := range n.ifs {
		if n.v6.JoinGroup(&n.ifs[i], &net.UDPAddr{IP: group6.IP}) == nil {
			joined++
		}
	}
	err := errors.Join(n.v6.SetControlMessage(ipv6.FlagInterface|ipv6.FlagDst, true),
		n.v6.SetMulticastHopLimit(255), n.v6.SetMulticastLoopback(true))
	if joined == 0 || err != nil {
		n.v6.Close()
		n.v6 = nil
		return fmt.Errorf("join IPv6 multicast on %d of %d interfaces: %w", joined, len(n.ifs), errors.Join(err, errJoin))
	}
	return nil
}

var errJoin = errors.New("could not join")

// read starts one reader a socket. Only packets to the multicast group count:
// the port is bound to the wildcard address, and unicast could come from
// anywhere in the world.
func (n *sockets) read(s *Service, limit *rate.Limiter, loop map[int]bool) {
	if v4 := n.v4; v4 != nil {
		n.readers.Go(func() {
			buf := make([]byte, maxPacket+1)
			for {
				k, cm, _, err := v4.ReadFrom(buf)
				if err != nil {
					return
				}
				if cm != nil && cm.Dst.IsMulticast() && limit.Allow() {
					s.received(buf[:k], loop[cm.IfIndex])
				}
			}
		})
	}
	if v6 := n.v6; v6 != nil {
		n.readers.Go(func() {
			buf := make([]byte, maxPacket+1)
			for {
				k, cm, _, err := v6.ReadFrom(buf)
				if err != nil {
					return
				}
				if cm != nil && cm.Dst.IsMulticast() && limit.Allow() {
					s.received(buf[:k], loop[cm.IfIndex])
				}
			}
		})
	}
}

// send multicasts on every interface what payload makes for it. A failure on
// one is as good as a lost packet.
func (n *sockets) send(payload func(loopback bool) []byte) {
	for i := range n.ifs {
		b := payload(n.ifs[i].Flags&net.FlagLoopback != 0)
		if b == nil {
			continue
		}
		if n.v4 != nil {
			n.v4.SetWriteDeadline(time.Now().Add(sendWait))
			n.v4.WriteTo(b, &ipv4.ControlMessage{IfIndex: n.ifs[i].Index}, group4)
		}
		if n.v6 != nil {
			n.v6.SetWriteDeadline(time.Now().Add(sendWait))
			n.v6.WriteTo(b, &ipv6.ControlMessage{IfIndex: n.ifs[i].Index}, group6)
		}
	}
}

// close ends the readers and waits for them.
func (n *sockets) close() {
	if n.v4 != nil {
		n.v4.Close()
	}
	if n.v6 != nil {
		n.v6.Close()
	}
	n.readers.Wait()
}
