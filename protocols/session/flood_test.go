package session

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"testing"
	"time"
)

// TestWrongDirection: with a role, a message that the peer may not send ends
// the attachment before it is stored.
func TestWrongDirection(t *testing.T) {
	t.Parallel()
	rc, pc := configs(t)
	rc.Role = Requester // the provider's Channel has none, so it sends anything
	r, p := New(rc), New(pc)
	t.Cleanup(func() { r.Close(); p.Close() })
	sa, sd := tcpPair(t)
	e := connect(deadline(t), r, p, sa, sd)
	if err := p.Send(deadline(t), progress(t, 1, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := e.wait(t); !errors.Is(err, ErrMismatch) {
		t.Errorf("ended with %v", err)
	}
	if r.State().Held != 0 {
		t.Error("the message was stored")
	}
}

// TestWindowBoundsMemory: a provider that floods is cut off at the window, and
// the process has not grown by more than it.
func TestWindowBoundsMemory(t *testing.T) {
	k := testKey(t, "provider")
	for _, tt := range []struct {
		name  string
		size  int
		count int
	}{
		{"bytes", 1 << 20, 20},
		{"count", 0, 3000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, p := channels(t)
			sa, sd := tcpPair(t)
			end := make(chan error, 1)
			go func() {
				h, err := ReadHello(deadline(t), sa)
				if err == nil {
					err = r.Answer(deadline(t), sa, h)
				}
				end <- err
			}()
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			a := rawDial(t, p, sd)
			a.write(a.frame(freshResume()))
			msg := wireMessage(bulk(t, k, 1, tt.size))
			for n := 1; n <= tt.count; n++ {
				for off := 0; off < len(msg); off += 60 << 10 {
					a.write(a.frame(dataItem(0, position{uint64(n), off}, msg[off:min(len(msg), off+60<<10)])))
				}
			}
			if err := within(t, end); !errors.Is(err, ErrWindow) {
				t.Errorf("ended with %v", err)
			}
			sd.Close()
			runtime.GC()
			runtime.ReadMemStats(&after)
			if held := r.State().Held; held > Window {
				t.Errorf("%d bytes held", held)
			}
			if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > Window+4<<20 {
				t.Errorf("heap grew by %d", grown)
			}
			if len(r.inbox) > maxSpan {
				t.Errorf("%d messages held", len(r.inbox))
			}
		})
	}
}

// TestRestartFloodBoundsMemory: a provider that restarts again and again, each
// time filling the window, holds one window.
func TestRestartFloodBoundsMemory(t *testing.T) {
	rc, pc := configs(t)
	r := New(rc)
	t.Cleanup(func() { r.Close() })
	for range 6 {
		p := New(pc)
		ctx, cancel := context.WithCancel(deadline(t))
		for n := 1; n <= 6; n++ {
			if err := p.Send(ctx, bulk(t, pc.Self, n, 1<<20)); err != nil {
				t.Fatal(err)
			}
		}
		sa, sd := tcpPair(t)
		e := connect(ctx, r, p, sa, sd)
		eventually(t, func() bool { return r.State().Held > 6<<20 })
		cancel()
		e.wait(t)
		p.Close()
		if held := r.State().Held; held > Window {
			t.Fatalf("%d bytes held", held)
		}
	}
	if len(r.inbox) > 6 {
		t.Errorf("%d messages of former lives kept", len(r.inbox)-6)
	}
}

// eventually polls a condition that no event announces.
func eventually(t testing.TB, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	ctx := deadline(t)
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("condition never held")
		}
	}
}

// TestPingFlood: a flood of pings is answered once a write, not once a ping.
func TestPingFlood(t *testing.T) {
	t.Parallel()
	r, p := victim(t)
	sa, sd := pipe()
	ctx, cancel := context.WithCancel(deadline(t))
	end := make(chan error, 1)
	go func() {
		h, err := ReadHello(ctx, sa)
		if err == nil {
			err = r.Answer(ctx, sa, h)
		}
		end <- err
	}()
	a := rawDial(t, p, sd)
	a.write(a.frame(resumeItem(position{seq: 1}, position{seq: 1})))
	// net.Pipe has no buffer and nobody reads, so the victim can't answer; its
	// reader must go on all the same.
	const n = 10_000
	for i := range n {
		a.write(a.frame(binary.BigEndian.AppendUint64([]byte{itemPing}, uint64(i))))
	}
	if got := r.State(); got.FramesOut > 10 {
		t.Errorf("%d frames out for %d pings", got.FramesOut, n)
	}
	cancel()
	within(t, end)
	unharmed(t, r, p)
}

// TestHandshakeFlood: strangers who open streams and stop hold a few places for
// handshakeTimeout; the next is told that the session is busy.
func TestHandshakeFlood(t *testing.T) {
	t.Parallel()
	r, p := channels(t)
	ctx, cancel := context.WithCancel(deadline(t))
	ends := make(chan error, maxHandshakes)
	for range maxHandshakes {
		sa, sd := pipe()
		go func() {
			h, err := ReadHello(ctx, sa)
			if err == nil {
				err = r.Answer(ctx, sa, h)
			}
			ends <- err
		}()
		stop := errors.New("stop")
		s, err := p.newSecrets()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.cfg.dial(sd, s, func(Boot) error { return stop }); !errors.Is(err, stop) {
			t.Fatal(err)
		}
	}
	sa, sd := pipe()
	dial, answer := connect(ctx, r, p, sa, sd).wait(t)
	var refused *RefusedError
	if !errors.As(dial, &refused) || refused.Reason != RefuseBusy || !errors.Is(answer, ErrBusy) {
		t.Errorf("got %v and %v", dial, answer)
	}
	cancel()
	for range maxHandshakes {
		within(t, ends)
	}
	sa, sd = pipe()
	e := connect(deadline(t), r, p, sa, sd)
	attachedWithin(t, p, true)
	p.Close()
	e.wait(t)
}
