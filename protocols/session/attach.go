package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// attachment is one stream of a channel.
type attachment struct {
	st     Stream
	number uint64        // order of the handshakes
	every  time.Duration // silence before a ping
	wake   chan struct{} // capacity one; the writer has something to look at
	done   chan struct{}

	once  sync.Once
	cause error // set by once, read after done

	// Guarded by Channel.mu.
	attached bool // the handshake is over
	over     bool // it gave way to a newer one and is ending
	ready    bool // where the peer wants us to go on is known
	resumed  bool // our resume item is out
	greeted  bool // the peer's resume item came
	pairing  uint64
	heard    time.Time // last frame
	pinged   time.Time // unanswered ping, zero when none is
	token    uint64    // of that ping
	pong     uint64    // to answer, when hasPong
	hasPong  bool

	// Owned by write.
	sealer   *sealer
	deadline time.Time // of the stream's writes
}

// kill ends the attachment at once. The first cause stays.
func (a *attachment) kill(cause error) { a.end(cause, a.st.Reset) }

// finish ends it after what was written.
func (a *attachment) finish(cause error) { a.end(cause, a.st.Close) }

func (a *attachment) end(cause error, stop func() error) {
	a.once.Do(func() {
		a.cause = cause
		close(a.done)
		stop()
	})
}

// Dial makes the initiator's handshake on st, then carries the session over it
// until the stream, ctx or the channel ends, and returns why, never nil. It
// owns st. It may be called again with the next stream, and while others are
// attached: the newest carries what is sent, all are received from.
//
// Errors: RefusedError (the peer declined, proven by its signature), those that
// wrap ErrProtocol (the peer is broken or hostile), ErrStale and ErrClosed
// (don't try again), ErrSilent, ErrReplaced, ErrBusy, ctx's and the stream's
// own (try the next stream).
func (c *Channel) Dial(ctx context.Context, st Stream) error {
	a, err := c.enter(st, pingEvery)
	if err != nil {
		st.Reset()
		return fmt.Errorf("dial session: %w", err)
	}
	return fmt.Errorf("dial session: %w", c.run(ctx, a, func() (*opener, error) {
		s, err := c.newSecrets()
		if err != nil {
			return nil, err
		}
		e, err := c.cfg.dial(st, s, func(peer Boot) error { return c.admit(a, peer) })
		if err != nil {
			return nil, err
		}
		return c.begin(a, e, e.keys.dial, e.keys.answer)
	}))
}

// Answer is Dial for the side that read h from st with ReadHello. A hello that
// is not for this channel, or comes when it can't be served, is refused on the
// wire and returned as ErrMismatch, ErrStale, ErrBusy or ErrClosed.
func (c *Channel) Answer(ctx context.Context, st Stream, h *Hello) error {
	a, err := c.enter(st, pingEvery+pingLag)
	if err != nil {
		c.refuse(st, h, err)
		return fmt.Errorf("answer session: %w", err)
	}
	return fmt.Errorf("answer session: %w", c.run(ctx, a, func() (*opener, error) {
		if err := c.foresee(a, h); err != nil {
			c.refuse(st, h, err)
			return nil, err
		}
		s, err := c.newSecrets()
		if err != nil {
			return nil, err
		}
		e, err := c.cfg.answer(st, h, s, func(peer Boot) error { return c.admit(a, peer) })
		if err != nil {
			return nil, err
		}
		return c.begin(a, e, e.keys.answer, e.keys.dial)
	}))
}

// refuse tells the dialling side why, and closes the stream.
func (c *Channel) refuse(st Stream, h *Hello, why error) {
	reason := RefuseGrant
	switch {
	case errors.Is(why, ErrConfig):
		st.Reset()
		return
	case errors.Is(why, ErrClosed):
		reason = RefuseOver
	case errors.Is(why, ErrBusy):
		reason = RefuseBusy
	case errors.Is(why, ErrStale):
		reason = RefuseStale
	case h.Session != c.cfg.Session:
		reason = RefuseUnknown
	}
	if err := h.Refuse(st, c.cfg.Self, reason); err != nil {
		c.log.Debug("refusal not delivered", "session", c.cfg.Session, "err", err)
	}
}

// run carries the session over one stream, from handshake to end.
func (c *Channel) run(ctx context.Context, a *attachment, shake func() (*opener, error)) error {
	defer c.leave(a)
	stop := context.AfterFunc(ctx, func() { a.kill(context.Cause(ctx)) })
	defer stop()
	in, err := deadlined(a.st, shake)
	if err != nil {
		a.kill(fmt.Errorf("handshake: %w", err))
		return a.cause
	}
	c.log.Debug("session attached", "session", c.cfg.Session, "handshake", a.number)
	var writer sync.WaitGroup
	writer.Go(func() { c.write(a) })
	a.kill(c.read(a, in))
	writer.Wait()
	c.log.Debug("session detached", "session", c.cfg.Session, "handshake", a.number, "err", a.cause)
	return a.cause
}

// enter registers a handshake.
func (c *Channel) enter(st Stream, every time.Duration) (*attachment, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.bad != nil:
		return nil, c.bad
	case c.isClosed:
		return nil, ErrClosed
	case len(c.live)-len(c.attached) >= maxHandshakes:
		return nil, ErrBusy
	}
	c.started++
	a := &attachment{st: st, number: c.started, every: every, wake: make(chan struct{}, 1), done: make(chan struct{})}
	c.live = append(c.live, a)
	c.wg.Add(1)
	return a, nil
}

// foresee declines a hello that admit would, before any key is made.
func (c *Channel) foresee(a *attachment, h *Hello) error {
	if err := c.cfg.match(h); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if pairWith(h.boot, c.peer, c.retired, a.number, c.since) == pairStale {
		return ErrStale
	}
	return nil
}

// admit pairs with the peer's life that a proved to speak for. Attachments of
// the life before end.
func (c *Channel) admit(a *attachment, peer Boot) error {
	c.mu.Lock()
	var old []*attachment
	defer func() {
		c.mu.Unlock()
		for _, o := range old {
			o.kill(ErrStale)
		}
	}()
	if c.isClosed {
		return ErrClosed
	}
	switch pairWith(peer, c.peer, c.retired, a.number, c.since) {
	case pairStale:
		return ErrStale
	case pairNew:
		old = append(old, c.attached...)
		c.repair(peer, a.number)
		a.ready = true // the peer has nothing of this pairing yet
	case pairSame:
	}
	a.pairing = c.pairing
	return nil
}

// repair starts a pairing with a new life of the peer. What this side sent and
// the old life did not acknowledge is sent again; what the old life sent and
// Receive has not returned is dropped: it was never acknowledged. c.mu is held.
func (c *Channel) repair(peer Boot, number uint64) {
	if c.pairing > 0 {
		if len(c.retired) == maxRetired {
			c.retired = slices.Delete(c.retired, 0, 1)
		}
		c.retired = append(c.retired, c.peer)
	}
	c.pairing++
	c.peer, c.since = peer, number
	for l := range c.out {
		c.out[l].renumber()
		c.in[l].init()
	}
	c.held, c.inbox = 0, nil
	c.ackBytes, c.ackCount, c.ackDue = 0, 0, false
	c.active = nil
}

// begin makes an admitted attachment carry the session.
func (c *Channel) begin(a *attachment, e established, out, in [32]byte) (*opener, error) {
	c.mu.Lock()
	var over *attachment
	defer func() {
		c.mu.Unlock()
		if over != nil {
			over.kill(ErrReplaced)
		}
	}()
	switch {
	case c.isClosed:
		return nil, ErrClosed
	case a.pairing != c.pairing:
		return nil, ErrStale
	}
	if c.serving() >= maxAttachments {
		i := slices.IndexFunc(c.attached, func(o *attachment) bool { return !o.over })
		over = c.attached[i]
		over.over = true
	}
	a.sealer = newSealer(out)
	a.attached = true
	a.heard = time.Now()
	c.attached = append(c.attached, a)
	c.status.Attaches++
	c.status.RTT = e.rtt
	if len(c.attached) == 1 {
		c.tell(true)
	}
	if a.ready {
		c.prefer(a)
	}
	return newOpener(a.st, in), nil
}

// serving counts attachments that were not told to end. c.mu is held.
func (c *Channel) serving() (n int) {
	for _, a := range c.attached {
		if !a.over {
			n++
		}
	}
	return n
}

// prefer lets a carry what is sent, unless a newer attachment does: handshakes
// may end in another order than they began. c.mu is held.
func (c *Channel) prefer(a *attachment) {
	if c.active == nil || c.active.number < a.number {
		c.activate(a)
	}
}

// activate makes a the attachment that sends. Everything that isn't known to
// have arrived goes out on it, and so does the state of acknowledgements, since
// the last ones may be lost with another stream. c.mu is held.
func (c *Channel) activate(a *attachment) {
	c.active = a
	for l := range c.out {
		c.out[l].cur = c.out[l].known
		if c.in[l].top > 0 {
			c.in[l].dirty, c.ackDue = true, true
		}
	}
	c.wake()
}

// leave forgets an attachment that ended and falls back to the next.
func (c *Channel) leave(a *attachment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live = slices.DeleteFunc(c.live, func(o *attachment) bool { return o == a })
	had := len(c.attached)
	c.attached = slices.DeleteFunc(c.attached, func(o *attachment) bool { return o == a })
	if c.active == a {
		c.active = nil
		for _, o := range c.attached {
			if o.ready && !o.over && o.pairing == c.pairing && (c.active == nil || c.active.number < o.number) {
				c.active = o
			}
		}
		if c.active != nil {
			c.activate(c.active)
		}
	}
	if had > 0 && len(c.attached) == 0 && !c.isClosed {
		c.tell(false)
	}
	c.wg.Done()
}

// wake makes the active writer look. c.mu is held.
func (c *Channel) wake() {
	if c.active != nil {
		signal(c.active.wake)
	}
}
