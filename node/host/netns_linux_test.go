package host

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftmesh/weft/protocols/identity"
)

// mDNS is tested on the loopback interface of a network namespace of its own,
// so that nothing reaches a real network.
const nsEnv = "WEFT_HOST_TEST_NAMESPACE"

func TestLAN(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestLANInNamespace$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), nsEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	out, err := cmd.CombinedOutput()
	if _, ran := err.(*exec.ExitError); err != nil && !ran {
		t.Skipf("no network namespace of our own: %v", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

func loUp(t *testing.T) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING | unix.IFF_MULTICAST | unix.IFF_LOOPBACK)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r); err != nil {
		t.Fatal(err)
	}
}

func TestLANInNamespace(t *testing.T) {
	if os.Getenv(nsEnv) == "" {
		t.Skip("run by TestLAN")
	}
	early := start(t, Config{MDNS: true, Listen: []string{loopTCP}}) // no network yet: not fatal
	loUp(t)
	any := []string{"/ip4/0.0.0.0/udp/0/quic-v1", "/ip4/0.0.0.0/tcp/0"}
	a, b := start(t, Config{MDNS: true, Listen: any}), start(t, Config{MDNS: true, Listen: any})
	a.Keep(b.PeerID())
	b.Keep(a.PeerID())
	took := until(t, "wanted peers connected by mDNS alone", func() bool {
		p, ok := a.PathOf(b.PeerID())
		_, ok2 := b.PathOf(a.PeerID())
		return ok && ok2 && p.Direct()
	})
	t.Logf("connected after %v", took)
	nearby := func(h *Host, k identity.PublicKey) bool {
		for _, c := range h.Nearby() {
			if c.Peer == k {
				return true
			}
		}
		return false
	}
	until(t, "both listed", func() bool { return nearby(a, b.PeerID()) && nearby(b, a.PeerID()) })
	if n := len(a.links(b.id)); n != 1 {
		t.Errorf("%d connections, only one side should dial", n)
	}
	// A peer that nobody wants is a hint, no connection; it can be opened.
	c := start(t, Config{MDNS: true, Listen: any})
	until(t, "third listed", func() bool { return nearby(a, c.PeerID()) })
	if _, ok := a.PathOf(c.PeerID()); ok {
		t.Error("connected to a peer that nobody asked for")
	}
	say(t, a, c.PeerID(), echo, "by id alone")
	early.networkChanged()
	until(t, "who started without a network finds it", func() bool { return len(early.Nearby()) >= 3 })

	// A restart on other ports is found through the LAN alone.
	key, k := b.cfg.Key, b.PeerID()
	b.Close()
	until(t, "lost", func() bool { _, ok := a.PathOf(k); return !ok })
	start(t, Config{Key: key, MDNS: true, Listen: any})
	t.Logf("restarted peer back after %v", until(t, "back", func() bool { _, ok := a.PathOf(k); return ok }))
}
