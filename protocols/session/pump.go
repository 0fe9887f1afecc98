package session

import (
	"encoding/binary"
	"fmt"
	"time"
)

// read takes frames until the stream ends, and says why it did. It never waits
// for the application: the window bounds what may be waiting.
func (c *Channel) read(a *attachment, in *opener) error {
	for {
		plain, err := in.next()
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		if err := c.take(a, plain); err != nil {
			return err
		}
	}
}

// take applies one frame.
func (c *Channel) take(a *attachment, plain []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed {
		return ErrClosed
	}
	if a.pairing != c.pairing {
		return ErrStale
	}
	a.heard = time.Now()
	c.status.FramesIn++
	c.status.BytesIn += uint64(frameHead + len(plain) + frameTag)
	var it item
	var err error
	for first := true; first || len(plain) > 0; first = false {
		if plain, err = decodeItem(plain, &it); err != nil {
			return err
		}
		if (it.typ == itemResume) == a.greeted {
			return fmt.Errorf("%w: resume comes first and once", ErrMalformed)
		}
		if err := c.takeItem(a, &it); err != nil {
			return err
		}
	}
	return nil
}

func (c *Channel) takeItem(a *attachment, it *item) error {
	switch it.typ {
	case itemData:
		return c.takeData(it)
	case itemAck:
		freed, err := c.out[it.lane].ack(it.ack)
		c.freed(freed)
		return err
	case itemPing:
		a.pong, a.hasPong = it.token, true // the newest is enough: a flood gets one answer a frame
		signal(a.wake)
	case itemPong:
		if !a.pinged.IsZero() && it.token == a.token {
			c.status.RTT = a.heard.Sub(a.pinged)
			a.pinged = time.Time{}
		}
	case itemResume:
		return c.takeResume(a, it)
	}
	return nil
}

// takeResume learns where the peer stands. It is the first item of an
// attachment.
func (c *Channel) takeResume(a *attachment, it *item) error {
	a.greeted = true
	for l := range c.out {
		lane := &c.out[l]
		freed, err := lane.ack(it.acks[l])
		c.freed(freed)
		if err != nil {
			return err
		}
		from, err := resumeFrom(lane.known, it.next[l], lane.end)
		if err != nil {
			return err
		}
		lane.reached(from)
	}
	if !a.ready {
		a.ready = true
		c.prefer(a)
	}
	return nil
}

// takeData adds received bytes to their lane and delivers whole messages.
func (c *Channel) takeData(it *item) error {
	l := &c.in[it.lane]
	v, skip := place(l.next, it.at, len(it.data))
	switch v {
	case duplicate:
		return nil
	case gap:
		return fmt.Errorf("%w: message %d byte %d came, %d byte %d is next", ErrGap, it.at.seq, it.at.off, l.next.seq, l.next.off)
	case accept:
	}
	if l.next.off == 0 {
		size, err := l.begin(it.data, c.held, c.cfg.Role)
		if err != nil {
			return err
		}
		c.held += size
	}
	whole, err := l.write(it.data[skip:])
	if err != nil || whole == nil {
		if err != nil {
			c.held -= l.abandon()
		}
		return err
	}
	m, err := decodeMessage(whole)
	if err != nil {
		return err // not reached: begin has checked the same bytes
	}
	m.Lane = it.lane
	c.inbox = append(c.inbox, &Delivery{Message: m, c: c, pairing: c.pairing, seq: it.at.seq, size: len(whole)})
	signal(c.arrived)
	return nil
}

// write sends frames until the attachment ends; a frame is one Write. It sleeps
// unless it is woken or a ping is due.
func (c *Channel) write(a *attachment) {
	buf := make([]byte, frameHead, maxFrame)
	timer := time.NewTimer(pingEvery)
	defer timer.Stop()
	for {
		plain, last, err := c.fill(a, buf[:frameHead:frameHead+maxPlain], timer)
		if err != nil {
			a.kill(err)
			return
		}
		if len(plain) > frameHead {
			if err := a.send(a.sealer.seal(buf[:len(plain)])); err != nil {
				a.kill(fmt.Errorf("write: %w", err))
				return
			}
			if !last {
				continue
			}
		}
		if last {
			a.finish(ErrClosed)
			return
		}
		select {
		case <-a.wake:
		case <-timer.C:
		case <-a.done:
			return
		}
	}
}

// send writes one frame. The deadline is renewed every pingEvery, since setting
// it costs more than a small frame: a blocked write ends after 10 to 15 s.
func (a *attachment) send(frame []byte) error {
	if now := time.Now(); a.deadline.Sub(now) < deadAfter-pingEvery {
		a.deadline = now.Add(deadAfter)
		if err := a.st.SetWriteDeadline(a.deadline); err != nil {
			return err
		}
	}
	_, err := a.st.Write(frame)
	return err
}

// fill appends the next frame's plaintext to p and sets the timer when there is
// none. With last, the channel is closed and this is the final frame.
func (c *Channel) fill(a *attachment, p []byte, timer *time.Timer) (frame []byte, last bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.pairing != c.pairing {
		return nil, false, ErrStale
	}
	if !a.resumed {
		a.resumed = true
		p = c.appendResume(p)
	}
	if c.isClosed {
		if a == c.active {
			p = c.appendAcks(p)
		}
		return c.counted(p), true, nil
	}
	if a.hasPong {
		a.hasPong = false
		p = binary.BigEndian.AppendUint64(append(p, itemPong), a.pong)
	}
	if a == c.active {
		data := c.pending()
		if c.ackDue || data && c.ackCount > 0 {
			p = c.appendAcks(p)
		}
		if data {
			p = c.appendLanes(p)
		}
	}
	if len(p) > frameHead {
		return c.counted(p), false, nil
	}
	now := time.Now()
	ping, dead, wait := pulse(now, a.heard, a.pinged, a.every)
	if dead {
		return nil, false, fmt.Errorf("%w: nothing for %s", ErrSilent, deadAfter)
	}
	if ping {
		a.pinged, a.token = now, a.token+1
		p = c.counted(binary.BigEndian.AppendUint64(append(p, itemPing), a.token))
	}
	timer.Reset(wait)
	return p, false, nil
}

// counted notes a frame in the status. c.mu is held.
func (c *Channel) counted(p []byte) []byte {
	if len(p) > frameHead {
		c.status.FramesOut++
		c.status.BytesOut += uint64(len(p) + frameTag)
	}
	return p
}

// pending reports whether a lane has data to send. c.mu is held.
func (c *Channel) pending() bool {
	for l := range c.out {
		if c.out[l].pending() {
			return true
		}
	}
	return false
}

// quantum is how much one lane adds while others wait.
const quantum = 16 << 10

// appendLanes fills a frame from the lanes by turns. c.mu is held.
func (c *Channel) appendLanes(p []byte) []byte {
	c.turn = (c.turn + 1) % lanes
	for {
		before := len(p)
		for i := range lanes {
			l := &c.out[(c.turn+i)%lanes]
			limit := cap(p)
			if c.othersPending(l) {
				limit = min(limit, len(p)+quantum)
			}
			p = l.take(p, limit)
		}
		if len(p) == before {
			return p
		}
	}
}

// othersPending reports whether a lane besides l has data to send. c.mu is held.
func (c *Channel) othersPending(l *sendLane) bool {
	for i := range c.out {
		if &c.out[i] != l && c.out[i].pending() {
			return true
		}
	}
	return false
}

// appendAcks acknowledges every lane with news. c.mu is held.
func (c *Channel) appendAcks(p []byte) []byte {
	var bits [maxSpan / 8]byte
	for l := range c.in {
		if in := &c.in[l]; in.dirty {
			in.dirty = false
			p = appendAck(append(p, itemAck|byte(l)), in.ack(&bits))
		}
	}
	c.ackBytes, c.ackCount, c.ackDue = 0, 0, false
	return p
}

// appendResume says where this side stands. c.mu is held.
func (c *Channel) appendResume(p []byte) []byte {
	var bits [maxSpan / 8]byte
	p = append(p, itemResume)
	for l := range c.in {
		in := &c.in[l]
		p = binary.AppendUvarint(p, in.next.seq)
		p = binary.AppendUvarint(p, uint64(in.next.off))
		p = appendAck(p, in.ack(&bits))
	}
	return p
}
