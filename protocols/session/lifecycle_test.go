package session

import (
	"context"
	"errors"
	"io"
	"testing"
)

// TestCancelInHandshake: ctx ends every stage of a handshake with a peer that
// has stopped answering.
func TestCancelInHandshake(t *testing.T) {
	t.Parallel()
	t.Run("reading a hello", func(t *testing.T) {
		sa, _ := pipe()
		ctx, cancel := context.WithCancel(deadline(t))
		end := make(chan error, 1)
		go func() {
			_, err := ReadHello(ctx, sa)
			end <- err
		}()
		cancel()
		if err := within(t, end); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Run("sending a hello", func(t *testing.T) {
		_, p := channels(t)
		_, sd := pipe() // nobody reads
		ctx, cancel := context.WithCancel(deadline(t))
		end := make(chan error, 1)
		go func() { end <- p.Dial(ctx, sd) }()
		cancel()
		if err := within(t, end); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Run("waiting for the reply", func(t *testing.T) {
		_, p := channels(t)
		sa, sd := pipe()
		ctx, cancel := context.WithCancel(deadline(t))
		end := make(chan error, 1)
		go func() { end <- p.Dial(ctx, sd) }()
		if _, err := ReadHello(ctx, sa); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := within(t, end); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Run("waiting for finish", func(t *testing.T) {
		r, p := channels(t)
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
		s, err := p.newSecrets()
		if err != nil {
			t.Fatal(err)
		}
		gone := errors.New("gone")
		if _, err := p.cfg.dial(sd, s, func(Boot) error { return gone }); !errors.Is(err, gone) {
			t.Fatal(err)
		}
		cancel()
		if err := within(t, end); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Run("cancelled before", func(t *testing.T) {
		_, p := channels(t)
		_, sd := pipe()
		ctx, cancel := context.WithCancel(deadline(t))
		cancel()
		if err := p.Dial(ctx, sd); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := p.Send(ctx, progress(t, 1, 1)); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if _, err := p.Receive(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestCloseWakesEverything: Close ends each call that waits, and what comes
// after it.
func TestCloseWakesEverything(t *testing.T) {
	t.Parallel()
	r, p := channels(t)
	ctx := deadline(t)
	k := p.cfg.Self
	sa, sd := pipe()
	e := connect(ctx, r, p, sa, sd)
	attachedWithin(t, p, true)
	_, stuck := pipe() // a second Dial waits in its handshake
	calls := map[string]chan error{}
	start := func(name string, f func() error) {
		ch := make(chan error, 1)
		calls[name] = ch
		go func() { ch <- f() }()
	}
	start("dial in handshake", func() error { return p.Dial(ctx, stuck) })
	start("receive", func() error { _, err := p.Receive(ctx); return err })
	start("send", func() error {
		for n := 1; ; n++ { // r never calls Done, so room ends
			if err := p.Send(ctx, bulk(t, k, n, 1<<20)); err != nil {
				return err
			}
		}
	})
	start("drain", func() error {
		eventually(t, func() bool { return p.State().Queued > 0 })
		return p.Drain(ctx)
	})
	watch := p.Watch(ctx)
	eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.room != nil && p.queued > 6<<20 && len(p.live) == 2
	})
	if err := errors.Join(p.Close(), p.Close()); err != nil {
		t.Error(err)
	}
	for name, ch := range calls {
		if err := within(t, ch); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for range watch { // it must end
	}
	dial, answer := e.wait(t)
	if !errors.Is(dial, ErrClosed) {
		t.Errorf("dial: %v", dial)
	}
	if !errors.Is(answer, io.EOF) && !errors.Is(answer, io.ErrUnexpectedEOF) && !errors.Is(answer, io.ErrClosedPipe) {
		t.Errorf("answer: %v", answer)
	}
	_, sd = pipe()
	for name, err := range map[string]error{
		"dial":  p.Dial(ctx, sd),
		"send":  p.Send(ctx, progress(t, 1, 1)),
		"drain": p.Drain(ctx),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
	if _, open := <-p.Watch(ctx); open {
		t.Error("Watch after Close is open")
	}
}

// TestClosedChannelRefuses: a closed channel says so to a dialling side.
func TestClosedChannelRefuses(t *testing.T) {
	t.Parallel()
	r, p := channels(t)
	r.Close()
	sa, sd := pipe()
	dial, answer := connect(deadline(t), r, p, sa, sd).wait(t)
	var refused *RefusedError
	if !errors.As(dial, &refused) || refused.Reason != RefuseOver || !errors.Is(answer, ErrClosed) {
		t.Errorf("got %v and %v", dial, answer)
	}
}

// TestBadConfig: nothing is sent for a session that can't be.
func TestBadConfig(t *testing.T) {
	t.Parallel()
	rc, _ := configs(t)
	for name, change := range map[string]func(*Config){
		"no session":      func(c *Config) { c.Session = "" },
		"session grammar": func(c *Config) { c.Session = "a b" },
		"no key":          func(c *Config) { c.Self = nil },
		"no peer":         func(c *Config) { c.Peer = [32]byte{} },
		"oneself":         func(c *Config) { c.Peer = c.Self.Public() },
		"very long":       func(c *Config) { c.Session = string(make([]byte, 100)) },
	} {
		cfg := rc
		change(&cfg)
		c := New(cfg)
		_, sd := pipe()
		if err := c.Dial(deadline(t), sd); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: dial: %v", name, err)
		}
		if err := c.Send(deadline(t), progress(t, 1, 1)); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: send: %v", name, err)
		}
		c.Close()
	}
}
