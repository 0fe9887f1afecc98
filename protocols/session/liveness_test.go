package session

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// advance lets virtual time pass; it is for synctest bubbles, where nothing
// really waits.
func advance(d time.Duration) { <-time.After(d) }

// TestIdlePath: in an hour of silence the path stays up and costs two small
// frames every 5 s.
func TestIdlePath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rc, pc := configs(t)
		r, p := New(rc), New(pc)
		sa, sd := pipe()
		e := connect(t.Context(), r, p, sa, sd)
		synctest.Wait()
		before := p.State()
		advance(time.Hour)
		after := p.State()
		if !after.Attached || after.Attaches != 1 {
			t.Errorf("lost the path: %+v", after)
		}
		frames := after.FramesIn + after.FramesOut - before.FramesIn - before.FramesOut
		if want := uint64(2 * time.Hour / pingEvery); frames > want+2 || frames < want-2 {
			t.Errorf("%d frames in an hour, want %d", frames, want)
		}
		r.Close()
		p.Close()
		e.wait(t)
	})
}

// TestSilentPeer: a path that has gone quiet ends after deadAfter, no sooner.
func TestSilentPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rc, pc := configs(t)
		r, p := New(rc), New(pc)
		defer r.Close()
		defer p.Close()
		sa, sd := pipe()
		end := make(chan error, 1)
		go func() {
			h, err := ReadHello(t.Context(), sa)
			if err == nil {
				err = r.Answer(t.Context(), sa, h)
			}
			end <- err
		}()
		a := rawDial(t, p, sd)
		go io.Copy(io.Discard, sd) // it takes everything and says nothing
		a.write(a.frame(freshResume()))
		begun := time.Now()
		err := <-end
		if took := time.Since(begun); !errors.Is(err, ErrSilent) || took != deadAfter {
			t.Errorf("ended after %s with %v", took, err)
		}
		sd.Close()
	})
}

// TestDeafPeer: a peer that sends but never reads is noticed by its silence
// about our pings, or by the blocked write.
func TestDeafPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rc, pc := configs(t)
		r, p := New(rc), New(pc)
		defer r.Close()
		defer p.Close()
		sa, sd := pipe()
		end := make(chan error, 1)
		go func() {
			h, err := ReadHello(t.Context(), sa)
			if err == nil {
				err = r.Answer(t.Context(), sa, h)
			}
			end <- err
		}()
		a := rawDial(t, p, sd)
		a.write(a.frame(freshResume()))
		begun := time.Now()
		err := <-end
		if took := time.Since(begun); err == nil || took > 2*deadAfter {
			t.Errorf("ended after %s with %v", took, err)
		}
		sd.Close()
	})
}

// TestHandshakeTimeout: a stranger who opens a stream and waits holds it for
// handshakeTimeout.
func TestHandshakeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, pc := configs(t)
		p := New(pc)
		defer p.Close()
		sa, sd := pipe()
		begun := time.Now()
		if _, err := ReadHello(t.Context(), sa); err == nil {
			t.Error("read a hello from nothing")
		}
		if took := time.Since(begun); took != handshakeTimeout {
			t.Errorf("reading took %s", took)
		}
		sd.Close()
		_, sd = pipe()
		begun = time.Now()
		if err := p.Dial(t.Context(), sd); err == nil {
			t.Error("dialled nothing")
		}
		if took := time.Since(begun); took != handshakeTimeout {
			t.Errorf("dialling took %s", took)
		}
	})
}

// TestAckTraffic: acknowledgements ride on answers. A hundred calls and results
// are two hundred frames and a few; a one-way stream gets an acknowledgement
// every ackDelay and not for each message.
func TestAckTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rc, pc := configs(t)
		r, p := New(rc), New(pc)
		sa, sd := pipe()
		e := connect(t.Context(), r, p, sa, sd)
		go func() {
			for {
				d, err := r.Receive(t.Context())
				if err != nil {
					return
				}
				d.Done()
				if d.Kind == KindCall {
					r.Send(t.Context(), progress(t, 1, 1))
				}
			}
		}()
		synctest.Wait()
		frames := func() uint64 { s := p.State(); return s.FramesIn + s.FramesOut }
		before := frames()
		for range 100 {
			if err := p.Send(t.Context(), bulk(t, pc.Self, 1, 10)); err != nil {
				t.Fatal(err)
			}
			receive(t, p)
			advance(time.Millisecond)
		}
		if err := p.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if got := frames() - before; got > 210 {
			t.Errorf("%d frames for 100 calls and 100 results", got)
		}
		before = p.State().FramesIn
		for i := range 200 {
			if err := p.Send(t.Context(), progress(t, i+1, 1)); err != nil {
				t.Fatal(err)
			}
			advance(time.Millisecond)
		}
		begun := time.Now()
		if err := p.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took > ackDelay {
			t.Errorf("the last acknowledgement took %s", took)
		}
		if got := p.State().FramesIn - before; got > 12 {
			t.Errorf("%d frames with acknowledgements for 200 messages in 200 ms", got)
		}
		r.Close()
		p.Close()
		e.wait(t)
	})
}

// TestCloseWithDeafPeer: a peer that doesn't read delays Close by closeGrace.
func TestCloseWithDeafPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rc, pc := configs(t)
		r, p := New(rc), New(pc)
		defer p.Close()
		sa, sd := pipe()
		end := make(chan error, 1)
		go func() {
			h, err := ReadHello(t.Context(), sa)
			if err == nil {
				err = r.Answer(t.Context(), sa, h)
			}
			end <- err
		}()
		a := rawDial(t, p, sd)
		a.write(a.frame(freshResume()))
		synctest.Wait() // the victim's writer is stuck with its first frame
		begun := time.Now()
		r.Close()
		if took := time.Since(begun); took != closeGrace {
			t.Errorf("Close took %s", took)
		}
		if err := <-end; !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		sd.Close()
	})
}
