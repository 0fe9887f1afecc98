package session

import (
	"context"
	"errors"
	"testing"
)

// TestAcksLeaveAtClose: what was Done before Close is acknowledged, so a good
// end repeats nothing.
func TestAcksLeaveAtClose(t *testing.T) {
	t.Parallel()
	r, p := channels(t)
	ctx := deadline(t)
	sa, sd := tcpPair(t)
	e := connect(ctx, r, p, sa, sd)
	for i := 1; i <= 10; i++ {
		if err := p.Send(ctx, progress(t, i, 1)); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		receive(t, r)
	}
	r.Close()
	e.wait(t)
	if got := p.State().Messages; got != 0 {
		t.Errorf("%d messages not acknowledged", got)
	}
}

// TestLateDoneStallsNothing: with 6 MiB of bulk that is never Done, and the
// oldest message of its own lane not Done either, other messages go on.
func TestLateDoneStallsNothing(t *testing.T) {
	t.Parallel()
	r, p := channels(t)
	ctx := deadline(t)
	sa, sd := tcpPair(t)
	connect(ctx, r, p, sa, sd)
	var late []*Delivery
	hold := func(m Message) {
		if err := p.Send(ctx, m); err != nil {
			t.Fatal(err)
		}
		d, err := r.Receive(ctx)
		if err != nil {
			t.Fatal(err)
		}
		late = append(late, d)
	}
	hold(progress(t, 1, 1))
	for n := 1; n <= 6; n++ {
		hold(bulk(t, p.cfg.Self, n, 1<<20))
	}
	short, cancel := context.WithCancel(ctx)
	blocked := make(chan error, 1)
	go func() { blocked <- p.Send(short, bulk(t, p.cfg.Self, 7, 2<<20)) }()
	for i := 2; i <= 600; i++ {
		if err := p.Send(ctx, progress(t, i, 4000)); err != nil {
			t.Fatal(err)
		}
		if got := number(t, receive(t, r)); got != i {
			t.Fatalf("got %d, want %d", got, i)
		}
	}
	cancel()
	if err := within(t, blocked); !errors.Is(err, context.Canceled) {
		t.Errorf("bulk beyond the window: %v", err)
	}
	eventually(t, func() bool { return p.State().Queued < 7<<20 }) // out of order acknowledgements freed the rest
	for _, d := range late {
		d.Done()
		d.Done()
	}
	if err := p.Drain(ctx); err != nil {
		t.Error(err)
	}
}

// TestBulkLaneGivesWay: a small message sent after 4 MiB on the bulk lane is
// there first.
func TestBulkLaneGivesWay(t *testing.T) {
	t.Parallel()
	r, p := channels(t)
	ctx := deadline(t)
	big := bulk(t, p.cfg.Self, 1, MaxBody)
	big.Lane = LaneBulk
	for _, m := range []Message{big, progress(t, 2, 10), progress(t, 3, 10)} {
		if err := p.Send(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	sa, sd := tcpPair(t)
	connect(ctx, r, p, sa, sd)
	for _, want := range []int{2, 3, 1} {
		if got := number(t, receive(t, r)); got != want {
			t.Errorf("got %d, want %d", got, want)
		}
	}
}

// TestWatch: the latest state is seen, and ctx ends the watch.
func TestWatch(t *testing.T) {
	t.Parallel()
	r, p := channels(t)
	ctx, cancel := context.WithCancel(deadline(t))
	w := p.Watch(ctx)
	if within(t, w) {
		t.Error("attached before any stream")
	}
	once, stop := context.WithCancel(ctx)
	sa, sd := pipe()
	e := connect(once, r, p, sa, sd)
	if !within(t, w) {
		t.Error("not attached")
	}
	stop()
	e.wait(t)
	if within(t, w) {
		t.Error("still attached")
	}
	cancel()
	for range w {
	}
}
