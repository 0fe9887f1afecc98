//go:build unix && !linux

package world

import (
	"errors"
	"net"
)

// netns exists on Linux only.
type netns struct{}

func newNetns() (*netns, error) { return nil, errors.New("network namespaces need Linux") }

func (ns *netns) do(fn func() error) error { return fn() }

func (ns *netns) close() {}

func (ns *netns) listenTCP() (*net.TCPListener, error) {
	return net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
}

func (ns *netns) listenUDP() (*net.UDPConn, error) {
	return net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
}
