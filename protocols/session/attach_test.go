package session

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

// TestReplacedLifeStaysOut: when a newer process of the provider has attached,
// the older can't come back, and learns why.
func TestReplacedLifeStaysOut(t *testing.T) {
	t.Parallel()
	rc, pc := configs(t)
	r, p1, p2 := New(rc), New(pc), New(pc)
	t.Cleanup(func() { r.Close(); p1.Close(); p2.Close() })
	ctx := deadline(t)
	sa, sd := pipe()
	first := connect(ctx, r, p1, sa, sd)
	attachedWithin(t, p1, true)
	sa, sd = pipe()
	connect(ctx, r, p2, sa, sd)
	attachedWithin(t, p2, true)
	if _, answer := first.wait(t); !errors.Is(answer, ErrStale) {
		t.Errorf("the old attachment ended with %v", answer)
	}
	sa, sd = pipe()
	dial, answer := connect(ctx, r, p1, sa, sd).wait(t)
	if !errors.Is(dial, ErrStale) || !errors.Is(answer, ErrStale) {
		t.Errorf("came back: %v, %v", dial, answer)
	}
	sa, sd = pipe() // and when the requester dials it
	dial, _ = connect(ctx, p1, r, sa, sd).wait(t)
	if !errors.Is(dial, ErrStale) {
		t.Errorf("dialled back: %v", dial)
	}
	if err := p2.Send(ctx, progress(t, 1, 1)); err != nil {
		t.Fatal(err)
	}
	if got := number(t, receive(t, r)); got != 1 {
		t.Errorf("got %d", got)
	}
}

// TestLateHandshakeOfOldLife: a relay delays the last message of an old life's
// handshake until a new life has attached.
func TestLateHandshakeOfOldLife(t *testing.T) {
	t.Parallel()
	rc, pc := configs(t)
	r, p1, p2 := New(rc), New(pc), New(pc)
	t.Cleanup(func() { r.Close(); p1.Close(); p2.Close() })
	ctx := deadline(t)
	sa, sd := tcpPair(t)
	end := make(chan error, 1)
	go func() {
		h, err := ReadHello(ctx, sa)
		if err == nil {
			err = r.Answer(ctx, sa, h)
		}
		end <- err
	}()
	held, admitted := make(chan struct{}), make(chan struct{})
	go func() {
		s, _ := p1.newSecrets()
		p1.cfg.dial(sd, s, func(Boot) error { close(admitted); <-held; return nil })
	}()
	within(t, admitted)
	sa2, sd2 := pipe()
	connect(ctx, r, p2, sa2, sd2)
	attachedWithin(t, r, true)
	close(held)
	if err := within(t, end); !errors.Is(err, ErrStale) {
		t.Errorf("the old life got in: %v", err)
	}
	sd.Close()
	if err := p2.Send(ctx, progress(t, 1, 1)); err != nil {
		t.Fatal(err)
	}
	if got := number(t, receive(t, r)); got != 1 {
		t.Errorf("got %d", got)
	}
}

// TestSimultaneousAttach: both sides dial at once, again and again, while
// messages flow; each attachment ends with the next pair still in place.
func TestSimultaneousAttach(t *testing.T) {
	t.Parallel()
	const rounds, n = 60, 3000
	r, p := channels(t)
	ctx := deadline(t)
	var traffic sync.WaitGroup
	for _, side := range []struct{ from, to *Channel }{{r, p}, {p, r}} {
		traffic.Go(func() {
			for i := 1; i <= n; i++ {
				if err := side.from.Send(ctx, progress(t, i, i%300)); err != nil {
					t.Error(err)
					return
				}
			}
		})
		traffic.Go(func() {
			for i := 1; i <= n; i++ {
				if got := number(t, receive(t, side.to)); got != i {
					t.Errorf("got %d, want %d", got, i)
					return
				}
			}
		})
	}
	var stop []func()
	for range rounds {
		once, cancel := context.WithCancel(ctx)
		sa, sd := tcpPair(t)
		one := connect(once, r, p, sa, sd)
		sa, sd = tcpPair(t)
		two := connect(once, p, r, sa, sd)
		eventually(t, func() bool { return r.State().Attachments > 0 && p.State().Attachments > 0 })
		stop = append(stop, func() { cancel(); one.wait(t); two.wait(t) })
		if len(stop) > 1 { // the old pair dies late
			stop[0]()
			stop = stop[1:]
		}
	}
	traffic.Wait()
	if err := errors.Join(r.Drain(ctx), p.Drain(ctx)); err != nil {
		t.Error(err)
	}
	for _, f := range stop {
		f()
	}
}

// TestFallBackToOlderAttachment: the newest stream swallows what it was given
// and dies; the older one, still alive, carries it again.
func TestFallBackToOlderAttachment(t *testing.T) {
	t.Parallel()
	r, p := channels(t)
	ctx := deadline(t)
	sa, sd := tcpPair(t)
	connect(ctx, r, p, sa, sd)
	attachedWithin(t, r, true)
	// The second stream goes through a middleman that stops forwarding.
	sa2, ma := tcpPair(t)
	sd2, md := tcpPair(t)
	var swallow atomic.Bool
	for _, dir := range [][2]Stream{{ma, md}, {md, ma}} {
		go func() {
			buf := make([]byte, 4096)
			for {
				n, err := dir[0].Read(buf)
				if err != nil {
					return
				}
				if !swallow.Load() {
					dir[1].Write(buf[:n])
				}
			}
		}()
	}
	second := connect(ctx, r, p, sa2, sd2)
	eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.active != nil && p.active.number == 2 && p.active.greeted
	})
	swallow.Store(true)
	before := p.State().BytesOut
	for i := 1; i <= 100; i++ {
		if err := p.Send(ctx, progress(t, i, 100)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() bool { return p.State().BytesOut > before+100*100 })
	ma.Close()
	md.Close()
	second.wait(t)
	for i := 1; i <= 100; i++ {
		if got := number(t, receive(t, r)); got != i {
			t.Fatalf("got %d, want %d", got, i)
		}
	}
	if err := p.Drain(ctx); err != nil {
		t.Error(err)
	}
}

// TestTooManyAttachments: a fifth stream ends the oldest and harms nothing.
func TestTooManyAttachments(t *testing.T) {
	t.Parallel()
	r, p := channels(t)
	ctx := deadline(t)
	var all []ends
	for i := range maxAttachments + 3 {
		sa, sd := tcpPair(t)
		all = append(all, connect(ctx, r, p, sa, sd))
		eventually(t, func() bool { return r.State().Attaches == i+1 && p.State().Attaches == i+1 })
	}
	for _, e := range all[:3] {
		dial, answer := e.wait(t)
		if !errors.Is(dial, ErrReplaced) && !errors.Is(answer, ErrReplaced) {
			t.Errorf("the oldest ended with %v and %v", dial, answer)
		}
	}
	if err := p.Send(ctx, progress(t, 1, 1)); err != nil {
		t.Fatal(err)
	}
	receive(t, r)
	if got := r.State().Attachments; got != maxAttachments {
		t.Errorf("%d attachments", got)
	}
}

// TestNewestAttachmentCarries: the handshakes of one pairing end in another
// order than they began; what is sent goes over the one that began last.
func TestNewestAttachmentCarries(t *testing.T) {
	t.Parallel()
	_, p := channels(t)
	newer := &attachment{number: 2, wake: make(chan struct{}, 1), done: make(chan struct{}), ready: true}
	older := &attachment{number: 1, wake: make(chan struct{}, 1), done: make(chan struct{}), ready: true}
	for _, a := range []*attachment{newer, older} {
		if _, err := p.begin(a, established{}, [32]byte{}, [32]byte{}); err != nil {
			t.Fatal(err)
		}
	}
	if p.active != newer {
		t.Error("the older attachment took over")
	}
	p.wg.Add(2)
	p.leave(newer)
	if p.active != older {
		t.Error("nothing carries after the newer one's end")
	}
	p.leave(older)
	if p.active != nil || p.State().Attached {
		t.Error("an attachment that ended is still there")
	}
}
