package session

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftmesh/weft/protocols/identity"
)

// cutStream dies, both ends at once, after a number of written bytes.
type cutStream struct {
	Stream
	left *atomic.Int64
	cut  func()
}

func (s cutStream) Write(b []byte) (int, error) {
	left := s.left.Add(-int64(len(b)))
	if left >= 0 {
		return s.Stream.Write(b)
	}
	n := 0
	if keep := int64(len(b)) + left; keep > 0 {
		n, _ = s.Stream.Write(b[:keep])
	}
	s.cut()
	return n, io.ErrClosedPipe
}

// cutPipe is a pipe that carries n bytes, in both directions together.
func cutPipe(n int64) (Stream, Stream) {
	a, b := pipe()
	left := new(atomic.Int64)
	left.Store(n)
	cut := func() { a.Reset(); b.Reset() }
	return cutStream{a, left, cut}, cutStream{b, left, cut}
}

// script is what one side sends: numbered from 1 in each lane, of many sizes.
func script(t testing.TB, k *identity.Key, rng *rand.Rand, lane Lane, n int) []Message {
	all := make([]Message, n)
	for i := range all {
		size := rng.IntN(200)
		switch rng.IntN(40) {
		case 0:
			size = rng.IntN(400 << 10)
		case 1, 2, 3, 4:
			size = rng.IntN(20 << 10)
		}
		all[i] = bulk(t, k, i+1, size)
		all[i].Lane = lane
	}
	return all
}

// TestThousandCuts: streams die after a random number of bytes, in the
// handshake, between frames and inside them, and sometimes the next one comes
// before the old one is dead. Every message arrives once and in order.
func TestThousandCuts(t *testing.T) {
	t.Parallel()
	const cuts, perLane = 1000, 2500
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	r, p := channels(t)
	ctx, cancel := context.WithCancel(deadline(t))
	defer cancel()

	var traffic sync.WaitGroup
	for _, side := range []struct{ from, to *Channel }{{r, p}, {p, r}} {
		for lane := range Lane(lanes) {
			all := script(t, side.from.cfg.Self, rng, lane, perLane)
			traffic.Go(func() {
				for _, m := range all {
					if err := side.from.Send(ctx, m); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		traffic.Go(func() {
			next := [lanes]int{1, 1}
			var late []*Delivery
			for range lanes * perLane {
				d, err := side.to.Receive(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				if got := number(t, d.Message); got != next[d.Lane] {
					t.Errorf("lane %d: message %d came, want %d", d.Lane, got, next[d.Lane])
					cancel()
					return
				}
				next[d.Lane]++
				if late = append(late, d); len(late) > 5 { // Done comes late and out of order
					for _, i := range []int{3, 1, 5, 0, 2, 4} {
						late[i].Done()
					}
					late = nil
				}
			}
			for _, d := range late {
				d.Done()
			}
		})
	}

	finished := make(chan struct{})
	go func() { traffic.Wait(); close(finished) }()
	var streams sync.WaitGroup
	n, over := 0, false
	for ; !over && ctx.Err() == nil; n++ {
		most := int64(2000)
		if n%4 != 0 {
			most = 60_000
		}
		if n > cuts {
			most = 4 << 20 // enough cuts: let the rest through
		}
		sa, sd := cutPipe(rng.Int64N(most))
		answerer, dialler := r, p
		if rng.IntN(2) == 0 {
			answerer, dialler = p, r
		}
		e := connect(ctx, answerer, dialler, sa, sd)
		ended := make(chan struct{})
		streams.Go(func() {
			defer close(ended)
			for _, err := range []error{<-e.dial, <-e.answer} {
				if errors.Is(err, ErrProtocol) || errors.Is(err, ErrStale) {
					t.Errorf("attachment ended with %v", err)
				}
			}
		})
		if rng.IntN(3) == 0 {
			continue // the next one overlaps
		}
		select {
		case <-ended:
		case <-finished:
			over = true
		}
	}
	within(t, finished)
	if n <= cuts {
		t.Fatalf("only %d streams were needed; send more", n)
	}
	t.Logf("%d streams", n)
	if err := errors.Join(drained(t, r, p)); err != nil {
		t.Error(err)
	}
	cancel()
	streams.Wait()
}

// drained attaches once more, unharmed, until both sides have acknowledged all.
func drained(t testing.TB, r, p *Channel) error {
	ctx, cancel := context.WithCancel(deadline(t))
	sa, sd := tcpPair(t)
	e := connect(ctx, r, p, sa, sd)
	err := errors.Join(r.Drain(ctx), p.Drain(ctx))
	cancel()
	e.wait(t)
	return err
}

// middleman forwards between two TCP connections like a relay that is broken or
// hostile: it may change, drop, repeat or swap what it carries.
func middleman(a, b net.Conn, rng *rand.Rand) {
	var both sync.WaitGroup
	seeds := [2]uint64{rng.Uint64(), rng.Uint64()}
	for i, dir := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			defer a.Close()
			defer b.Close()
			rng := rand.New(rand.NewPCG(seeds[i], 2))
			buf, kept := make([]byte, 4096), []byte(nil)
			for {
				n, err := dir[0].Read(buf)
				if err != nil {
					return
				}
				out := append([]byte(nil), buf[:n]...)
				switch rng.IntN(60) {
				case 0:
					out[rng.IntN(n)] ^= 1 << rng.IntN(8)
				case 1:
					out = out[:rng.IntN(n)]
				case 2:
					out = append(out, out...)
				case 3:
					kept, out = out, kept
				case 4:
					return
				}
				if len(out) < n {
					// What is missing shows with the next bytes; when none
					// come, the ping would show it after 5 s. End sooner.
					dir[0].SetReadDeadline(time.Now().Add(20 * time.Millisecond))
				}
				if _, err := dir[1].Write(out); err != nil {
					return
				}
			}
		})
	}
	both.Wait()
}

// TestHostileRelay: a middleman can end attachments and nothing else.
func TestHostileRelay(t *testing.T) {
	t.Parallel()
	const perLane = 150
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	r, p := channels(t)
	ctx, cancel := context.WithCancel(deadline(t))
	defer cancel()
	var traffic, streams sync.WaitGroup
	for _, side := range []struct{ from, to *Channel }{{r, p}, {p, r}} {
		all := script(t, side.from.cfg.Self, rng, LaneMain, perLane)
		traffic.Go(func() {
			for _, m := range all {
				if err := side.from.Send(ctx, m); err != nil {
					t.Error(err)
					return
				}
			}
		})
		traffic.Go(func() {
			for want := 1; want <= perLane; want++ {
				d, err := side.to.Receive(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				if got := number(t, d.Message); got != want {
					t.Errorf("message %d came, want %d", got, want)
					return
				}
				if err := Verify(side.from.cfg.Self.Public(), "s-1", d.Message); err != nil {
					t.Error(err)
				}
				d.Done()
			}
		})
	}
	finished := make(chan struct{})
	go func() { traffic.Wait(); close(finished) }()
	causes := map[error]int{}
	for over := false; !over && ctx.Err() == nil; {
		sa, ma := tcpPair(t)
		sd, md := tcpPair(t)
		once, stop := context.WithCancel(ctx)
		e := connect(once, r, p, sa, sd)
		streams.Go(func() { middleman(ma.(connStream).Conn, md.(connStream).Conn, rng) })
		var err error
		select {
		case err = <-e.dial:
			stop() // the other side may wait for a message that was dropped
			<-e.answer
		case err = <-e.answer:
			stop()
			<-e.dial
		case <-finished:
			over = true
			stop()
			e.wait(t)
		}
		for _, c := range []error{ErrSealed, ErrMalformed, ErrTooLarge, ErrSignature, io.EOF, io.ErrUnexpectedEOF} {
			if errors.Is(err, c) {
				causes[c]++
			}
		}
		streams.Wait()
		rng = rand.New(rand.NewPCG(rng.Uint64(), 3))
	}
	within(t, finished)
	t.Logf("ended by: %v", causes)
	if causes[ErrSealed] == 0 {
		t.Error("the middleman never changed a frame")
	}
}

// TestPeerRestarts: what a life of the provider had not acknowledged comes again
// to the next one, in order; what it had acknowledged does not.
func TestPeerRestarts(t *testing.T) {
	t.Parallel()
	const n = 2000
	rc, pc := configs(t)
	r := New(rc)
	t.Cleanup(func() { r.Close() })
	ctx := deadline(t)
	var sender sync.WaitGroup
	sender.Go(func() {
		for i := 1; i <= n; i++ {
			if err := r.Send(ctx, progress(t, i, i%1000)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	rng := rand.New(rand.NewPCG(1, 2))
	var owed []int // what the next life must get before anything new
	highest, lives, again := 0, 0, 0
	for highest < n {
		lives++
		p := New(pc)
		once, cancel := context.WithCancel(ctx)
		sa, sd := pipe()
		e := connect(once, r, p, sa, sd)
		for i := range 1 + rng.IntN(200) {
			d, err := p.Receive(once)
			if err != nil {
				t.Fatal(err)
			}
			want := highest + 1
			if i < len(owed) {
				want = owed[i]
				again++
			}
			got := number(t, d.Message)
			if got != want {
				t.Fatalf("life %d got %d, want %d", lives, got, want)
			}
			highest = max(highest, got)
			if rng.IntN(20) > 0 {
				d.Done()
			}
			if highest == n {
				break
			}
		}
		if lives%3 > 0 {
			p.Close() // a good end; otherwise acknowledgements are lost too
		}
		cancel()
		e.wait(t)
		p.Close()
		owed = nil
		r.mu.Lock()
		for _, o := range r.out[0].q {
			if o.acked {
				continue
			}
			h, err := DecodeProgress(o.msg)
			if err != nil {
				t.Error(err)
			}
			if int(h.N) <= highest {
				owed = append(owed, int(h.N))
			}
		}
		r.mu.Unlock()
	}
	sender.Wait()
	if lives < 10 || again < 10 {
		t.Errorf("%d lives, %d messages again: the test did not restart enough", lives, again)
	}
	t.Logf("%d lives, %d messages again", lives, again)
}
