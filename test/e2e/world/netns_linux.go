package world

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// netns is a network namespace with nothing but a loopback interface. It lives
// as long as its file, or a process in it.
type netns struct{ file *os.File }

// threadNS is the calling thread's namespace.
const threadNS = "/proc/thread-self/ns/net"

// newNetns makes a namespace. It needs the right to (root).
func newNetns() (*netns, error) {
	var ns *netns
	err := away(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		file, err := os.Open(threadNS)
		if err != nil {
			return err
		}
		if err := loopbackUp(); err != nil {
			file.Close()
			return err
		}
		ns = &netns{file}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("make a network namespace: %w", err)
	}
	return ns, nil
}

// away runs fn, which may change the thread's namespace, on a locked thread
// and brings the thread back. The thread must not end instead: it may have
// started a process earlier, and the death signal would end that process too.
func away(fn func() error) error {
	c := make(chan error)
	go func() {
		runtime.LockOSThread()
		home, err := os.Open(threadNS)
		if err != nil {
			runtime.UnlockOSThread()
			c <- err
			return
		}
		defer home.Close()
		err = fn()
		if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back == nil {
			runtime.UnlockOSThread()
		} else {
			err = errors.Join(err, fmt.Errorf("return to the own network: %w", back))
		}
		c <- err
	}()
	return <-c
}

// loopbackUp switches the interface lo on in the thread's namespace.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, ifr); err != nil {
		return err
	}
	ifr.SetUint16(ifr.Uint16() | unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}

// do runs fn on a thread inside the namespace: sockets it makes and processes
// it starts belong there. A nil namespace runs fn where it is.
func (ns *netns) do(fn func() error) error {
	if ns == nil {
		return fn()
	}
	return away(func() error {
		if err := unix.Setns(int(ns.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		return fn()
	})
}

func (ns *netns) close() { ns.file.Close() }

// listenTCP and listenUDP open a socket on a free loopback port inside.
func (ns *netns) listenTCP() (l *net.TCPListener, err error) {
	err = ns.do(func() error {
		l, err = net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		return err
	})
	return l, err
}

func (ns *netns) listenUDP() (c *net.UDPConn, err error) {
	err = ns.do(func() error {
		c, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		return err
	})
	return c, err
}
