package session

import (
	"context"
	"fmt"
)

// Send queues m and returns; the channel delivers it once to the peer's life
// that is or will be attached, and again to a later life of the peer unless it
// was acknowledged. Send waits for room until ctx ends. The slices of m must
// not change afterwards.
func (c *Channel) Send(ctx context.Context, m Message) error {
	if c.bad != nil {
		return c.bad
	}
	if err := m.check(); err != nil {
		return fmt.Errorf("send %s: %w", m.Kind, err)
	}
	if m.Lane >= lanes {
		return fmt.Errorf("send %s: %w: lane %d", m.Kind, ErrMalformed, m.Lane)
	}
	if c.cfg.Role != 0 && m.Kind.From() != c.cfg.Role {
		return fmt.Errorf("send %s: %w: the other side sends it", m.Kind, ErrMismatch)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("send %s: %w", m.Kind, err)
	}
	o := &outgoing{msg: m, prefix: m.prefix(), size: m.size()}
	for {
		c.mu.Lock()
		if c.isClosed {
			c.mu.Unlock()
			return fmt.Errorf("send %s: %w", m.Kind, ErrClosed)
		}
		l := &c.out[m.Lane]
		if l.span() < maxSpan && hasRoom(c.queued, o.size, c.cfg.MaxQueued) {
			l.q = append(l.q, o)
			c.queued += o.size
			c.wake()
			c.mu.Unlock()
			return nil
		}
		room := c.waitRoom()
		c.mu.Unlock()
		select {
		case <-room:
		case <-c.closed:
		case <-ctx.Done():
			return fmt.Errorf("send %s: no room for %d bytes: %w", m.Kind, o.size, ctx.Err())
		}
	}
}

// Drain waits until the peer has acknowledged everything that was sent.
func (c *Channel) Drain(ctx context.Context) error {
	for {
		c.mu.Lock()
		if c.isClosed {
			c.mu.Unlock()
			return fmt.Errorf("drain: %w", ErrClosed)
		}
		if c.queued == 0 {
			c.mu.Unlock()
			return nil
		}
		room, left := c.waitRoom(), c.queued
		c.mu.Unlock()
		select {
		case <-room:
		case <-c.closed:
		case <-ctx.Done():
			return fmt.Errorf("drain: %d bytes not acknowledged: %w", left, ctx.Err())
		}
	}
}

// waitRoom returns a channel that closes when queued shrinks. c.mu is held.
func (c *Channel) waitRoom() chan struct{} {
	if c.room == nil {
		c.room = make(chan struct{})
	}
	return c.room
}

// freed takes acknowledged bytes out of queued. c.mu is held.
func (c *Channel) freed(n int) {
	c.queued -= n
	if n > 0 && c.room != nil {
		close(c.room)
		c.room = nil
	}
}
