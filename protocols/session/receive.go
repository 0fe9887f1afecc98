package session

import (
	"context"
	"fmt"
)

// Delivery is a received message. Until Done, the peer keeps its copy.
type Delivery struct {
	Message
	c       *Channel
	pairing uint64
	seq     uint64
	size    int
	done    bool // guarded by c.mu
}

// Done says that the message needn't come again: its effect is durable here.
// Calling it late holds a part of the window and nothing else; calling it
// twice, or after the peer restarted, is harmless.
func (d *Delivery) Done() {
	c := d.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if d.done || d.pairing != c.pairing || c.isClosed {
		return
	}
	d.done = true
	c.held -= d.size
	c.in[d.Lane].finish(d.seq)
	c.ackBytes += d.size
	c.ackCount++
	switch {
	case c.ackDue:
	case c.ackBytes >= ackSoonBytes || c.ackCount >= ackSoonCount:
		c.ackDue = true
		c.wake()
	case !c.ackArmed:
		c.ackArmed = true
		c.ackTimer.Reset(ackDelay)
	}
}

// ackNow is called by ackTimer.
func (c *Channel) ackNow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ackArmed = false
	if c.ackCount > 0 && !c.isClosed {
		c.ackDue = true
		c.wake()
	}
}

// Receive returns the next message: in the order of Send within a lane, each
// once for each life of the sender. Its errors are ErrClosed and ctx's.
func (c *Channel) Receive(ctx context.Context) (*Delivery, error) {
	for {
		c.mu.Lock()
		if c.isClosed {
			c.mu.Unlock()
			return nil, fmt.Errorf("receive: %w", ErrClosed)
		}
		if len(c.inbox) > 0 {
			d := c.inbox[0]
			c.inbox[0] = nil
			c.inbox = c.inbox[1:]
			if len(c.inbox) > 0 {
				signal(c.arrived)
			}
			c.mu.Unlock()
			return d, nil
		}
		c.mu.Unlock()
		select {
		case <-c.arrived:
		case <-c.closed:
		case <-ctx.Done():
			return nil, fmt.Errorf("receive: %w", ctx.Err())
		}
	}
}

// signal leaves a token in a channel of capacity one.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
