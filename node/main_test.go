package node

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/node/home"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// loopback listens where no other machine gets at it.
var loopback = []string{"/ip4/127.0.0.1/udp/0/quic-v1", "/ip4/127.0.0.1/tcp/0"}

// start runs a node on dir and closes it at the end of the test.
func start(t *testing.T, dir home.Dir, change func(*Config)) *Node {
	t.Helper()
	cfg := Config{Home: dir, Listen: loopback, NoMDNS: true}
	if change != nil {
		change(&cfg)
	}
	n := New(cfg)
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func dial(t *testing.T, dir home.Dir) *api.Client {
	t.Helper()
	c, err := api.Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// until polls a condition, with a deadline.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("gave up waiting: %s", what)
		case <-tick.C:
		}
	}
}
