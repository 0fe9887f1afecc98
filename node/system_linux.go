package node

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// clockSynced asks the kernel whether a time service keeps its clock right.
func clockSynced() (synced, known bool) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return false, false // refused in some containers
	}
	return state != unix.TIME_ERROR, true
}

// udpBuffer makes a socket the way quic-go does and returns the receive buffer
// it got, in bytes.
func udpBuffer(want int) (int, error) {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return 0, fmt.Errorf("open a UDP socket: %w", err)
	}
	defer c.Close()
	if err := c.SetReadBuffer(want); err != nil {
		return 0, fmt.Errorf("set a UDP buffer: %w", err)
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("look at a UDP socket: %w", err)
	}
	got := 0
	var getErr error
	err = raw.Control(func(fd uintptr) {
		// A privileged process may go past the system's limit.
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, want)
		got, getErr = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF)
	})
	if err == nil {
		err = getErr
	}
	if err != nil {
		return 0, fmt.Errorf("look at a UDP buffer: %w", err)
	}
	return got / 2, nil // socket(7): the kernel doubles the value for its own use
}
