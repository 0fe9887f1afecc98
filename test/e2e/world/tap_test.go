//go:build unix

package world

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// echo is a stand-in for a relay's two sockets: it sends back what it gets.
func echo(t *testing.T) *Node {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, maxDatagram)
		for {
			n, from, err := u.ReadFrom(buf)
			if err != nil {
				return
			}
			u.WriteTo(buf[:n], from)
		}
	}()
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				io.Copy(c, c)
				c.Close()
			}()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		u.Close()
		<-done
		<-accepted
	})
	addr := func(a net.Addr, f string) string {
		_, port, _ := net.SplitHostPort(a.String())
		return fmt.Sprintf(f, port)
	}
	return &Node{Name: "relay", Ready: Ready{PeerID: "12D3R", Addrs: []string{
		addr(u.LocalAddr(), "/ip4/127.0.0.1/udp/%s/quic-v1"), addr(l.Addr(), "/ip4/127.0.0.1/tcp/%s")}}}
}

// dial connects through the namespace to a port.
func dial(t *testing.T, ns *netns, network string, port int) net.Conn {
	t.Helper()
	var c net.Conn
	err := ns.do(func() (err error) {
		c, err = net.DialTimeout(network, fmt.Sprintf("127.0.0.1:%d", port), dialPatience)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(Patience))
	t.Cleanup(func() { c.Close() })
	return c
}

func exchange(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
		t.Fatalf("echo of %q: %q, %v", text, got, err)
	}
}

func needles(s ...string) (all [][]byte) {
	for _, n := range s {
		all = append(all, []byte(n))
	}
	return all
}

func testTap(t *testing.T, inside *Node) {
	w := New(t)
	relay := echo(t)
	tap := w.Tap(t, relay, inside)
	var ns *netns
	if inside != nil {
		ns = inside.ns
	}
	if n := len(tap.Addrs()); n != 2 {
		t.Fatalf("addresses: %v", tap.Addrs())
	}
	c := dial(t, ns, "tcp4", tap.tcp.port())
	exchange(t, c, "first-half,")
	exchange(t, c, "second-half")
	u := dial(t, ns, "udp4", tap.udp.port())
	exchange(t, u, "in one datagram")
	found := tap.Found(t, needles("half,second", "one datagram", "never sent"))
	if diff := cmp.Diff(needles("half,second", "one datagram"), found); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
	if want := int64(2 * len("first-half,second-halfin one datagram")); tap.Bytes() != want {
		t.Errorf("%d bytes, want %d", tap.Bytes(), want)
	}

	tap.Cut()
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection survived the cut")
	}
	late := dial(t, ns, "tcp4", tap.tcp.port())
	if _, err := late.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a connection during the cut: %v", err)
	}
	if _, err := io.WriteString(u, "lost datagram"); err != nil {
		t.Fatal(err)
	}
	Until(t, Patience, "connection and datagram meet the cut", func() string {
		if n := tap.Refused(); n != 2 {
			return fmt.Sprintf("%d did", n)
		}
		return ""
	})
	tap.Heal()
	exchange(t, dial(t, ns, "tcp4", tap.tcp.port()), "healed")
	exchange(t, u, "healed too")
	if len(tap.Found(t, needles("lost datagram"))) != 0 {
		t.Error("a datagram passed during the cut")
	}
}

func TestTap(t *testing.T) {
	t.Parallel()
	testTap(t, nil)
}

// TestTapIsolated also shows that the namespace has no other way out.
func TestTapIsolated(t *testing.T) {
	t.Parallel()
	ns, err := newNetns()
	if err != nil {
		Missing(t, "network namespaces: %v", err)
	}
	defer ns.close()
	testTap(t, &Node{ns: ns})

	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = ns.do(func() error {
		c, err := net.DialTimeout("tcp4", l.Addr().String(), dialPatience)
		if err == nil {
			c.Close()
		}
		return err
	})
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("from inside to a port outside: %v", err)
	}

	// A process started inside lives there, and outlives the starting thread.
	w := New(t)
	p := w.Start(t, Spec{Argv: []string{"/bin/sh", "-c", "readlink /proc/self/ns/net; read x"}, Env: w.Env(w.Dir), Node: &Node{ns: ns}})
	line, ok := p.Line(Patience)
	outside, err := os.Readlink("/proc/self/ns/net")
	if !ok || err != nil || bytes.Equal(line, []byte(outside)) {
		t.Errorf("namespace of the process %q, ours %q, %v", line, outside, err)
	}
	if err := p.CloseInput(); err != nil {
		t.Fatal(err)
	}
	if code := p.Wait(t, Patience); code != 1 { // read at the end of the input
		t.Errorf("code %d", code)
	}
}
