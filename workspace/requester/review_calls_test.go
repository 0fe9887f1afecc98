package requester_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/weftmesh/weft/protocols/session"
	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/gate"
	"github.com/weftmesh/weft/workspace/requester"
	"github.com/weftmesh/weft/workspace/sessionlog"
)

// TestCallsWaitForJoin: nothing runs before the provider has joined, and what
// came before runs then.
func TestCallsWaitForJoin(t *testing.T) {
	t.Parallel()
	w := offered(t, nil)
	w.attach(true)
	write := w.call("write_file", `{"path":"app/early.txt","mode":"create"}`, nil)
	secret := w.call("read_file", `{"path":"app/.env"}`, nil)
	w.send(write, nil)
	w.send(secret, nil)
	w.running(2)
	if v := w.s.View(); v.State != gate.Offered || v.Running != 2 || v.Head.Size != 1 || w.has("early.txt") {
		t.Fatalf("before the join: %s, %d calls wait, %d records", v.State, v.Running, v.Head.Size)
	}
	if err := w.s.Pause(t.Context(), "a test"); !errors.Is(err, requester.ErrState) {
		t.Errorf("pause before the join: %v", err)
	}
	w.join()
	got := w.replies(write, secret)
	if got[0].Verdict != "ok" || !w.has("early.txt") || got[1].Code != string(workspace.SecretPath) {
		t.Errorf("after the join: %+v", got)
	}
}

// TestStopBeforeJoin: a call that waited for the join does not run after stop.
func TestStopBeforeJoin(t *testing.T) {
	t.Parallel()
	w := offered(t, nil)
	w.attach(true)
	m := w.call("write_file", `{"path":"app/early.txt","mode":"create"}`, nil)
	w.send(m, nil)
	w.running(1)
	if err := w.s.End(t.Context(), gate.Killed, "a test"); err != nil {
		t.Fatal(err)
	}
	w.join()
	if r := w.repeat(m); r.Verdict != "denied" || w.has("early.txt") {
		t.Errorf("got %+v", r)
	}
	w.proved()
}

// TestHeldCallTwice: a call that comes again while it waits is answered once,
// by what became of it.
func TestHeldCallTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	if err := w.s.Pause(t.Context(), "a test"); err != nil {
		t.Fatal(err)
	}
	m := w.call("write_file", `{"path":"app/twice.txt","mode":"create"}`, nil)
	w.send(m, nil)
	w.running(1)
	w.send(m, nil)
	w.until("the second one is done with", func() bool { return w.ch.State().Messages == 1 })
	if w.has("twice.txt") || w.s.View().Running != 1 {
		t.Fatal("it does not wait")
	}
	if err := w.s.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	answers := 0
	after := w.call("stat", `{"path":"app"}`, nil)
	w.until("it has been answered", func() bool { return w.s.View().Running == 0 })
	w.send(after, nil)
	for last := ""; last != w.id(after); {
		r, err := session.DecodeResult(w.wait(session.KindResult))
		if err != nil {
			t.Fatal(err)
		}
		if last = r.Call; last == w.id(m) {
			answers++
			if r.Verdict != "ok" {
				t.Errorf("answered %s %s", r.Verdict, r.Code)
			}
		}
	}
	if answers != 1 {
		t.Errorf("%d answers", answers)
	}
	if recs := w.of(w.id(m)); len(recs) != 2 || recs[0].Verdict != sessionlog.Allowed || recs[1].Verdict != sessionlog.OK || !w.has("twice.txt") {
		t.Errorf("logged as %+v", recs)
	}
}

// TestRepeatAtOnce: a call that comes again the moment its answer arrives is
// answered again, though the requester may not be quite done with it.
func TestRepeatAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	m := w.call("read_file", `{"path":"app/a.txt"}`, nil)
	first := w.repeat(m)
	for range 300 {
		if r := w.repeat(m); r != first {
			t.Fatalf("again: %+v, want %+v", r, first)
		}
	}
}

// TestCancelWhilePaused: a call that is cancelled while it waits does not run
// afterwards.
func TestCancelWhilePaused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	if err := w.s.Pause(t.Context(), "a test"); err != nil {
		t.Fatal(err)
	}
	m := w.call("write_file", `{"path":"app/cancelled.txt","mode":"create"}`, nil)
	other := w.call("write_file", `{"path":"app/kept.txt","mode":"create"}`, nil)
	w.send(m, nil)
	w.send(other, nil)
	w.running(2)
	w.send(session.EncodeCancel(session.Cancel{ID: w.id(m)}))
	if r := w.replies(m)[0]; r.Verdict != "denied" || r.Code != string(workspace.RateLimited) {
		t.Errorf("cancelled: %+v", r)
	}
	if err := w.s.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := w.replies(other)[0]; r.Verdict != "ok" || !w.has("kept.txt") {
		t.Errorf("the other call: %+v", r)
	}
	if r := w.repeat(m); r.Verdict != "denied" || w.has("cancelled.txt") {
		t.Errorf("the cancelled call again: %+v", r)
	}
}

// TestPausedFloodIsHeld: what comes while the session is paused, even under
// used numbers, is held and writes nothing.
func TestPausedFloodIsHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.ask(w.call("stat", `{"path":"app"}`, nil))
	if err := w.s.Pause(t.Context(), "a test"); err != nil {
		t.Fatal(err)
	}
	before := w.s.Log().Head().Size
	const flood = 300
	for range flood {
		w.send(w.call("stat", `{"path":"app"}`, func(c *session.Call) { c.Seq = 1 }), nil)
	}
	w.running(flood)
	if now := w.s.Log().Head().Size; now != before {
		t.Errorf("%d records were written while the session was paused", now-before)
	}
	if err := w.s.End(t.Context(), gate.Killed, "a test"); err != nil {
		t.Fatal(err)
	}
	w.taken() // each is answered and let go
	w.running(0)
	w.proved()
}

// TestNothingAfterTheEnd: what comes after the end leaves no record, so that
// the receipt stays that of the whole log.
func TestNothingAfterTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	good := w.call("stat", `{"path":"app"}`, nil)
	w.ask(good)
	if err := w.s.End(t.Context(), gate.Killed, "a test"); err != nil {
		t.Fatal(err)
	}
	end, receipt := w.s.Log().Head(), string(w.s.Receipt())
	forged := good
	forged.Sig = append([]byte(nil), good.Sig...)
	forged.Sig[0] ^= 1
	for range 200 {
		w.send(forged, nil)
	}
	w.send(w.call("write_file", `{"path":"app/late.txt","mode":"create"}`, func(c *session.Call) { c.ID = w.id(good) }), nil)
	late := w.call("write_file", `{"path":"app/late.txt","mode":"create"}`, nil)
	if r := w.repeat(late); r.Verdict != "denied" || r.Code != string(workspace.Killed) || w.has("late.txt") {
		t.Errorf("a call after the end: %+v", r)
	}
	w.s.PathChanged("", "direct")
	w.taken()
	if now := w.s.Log().Head(); now != end {
		t.Errorf("the log grew from %d to %d", end.Size, now.Size)
	}
	if string(w.s.Receipt()) != receipt {
		t.Error("the receipt changed")
	}
	w.proved()
}

// TestLateResultIsUnknown: a call that does not end in time for the end of the
// log is unknown in the log, in the receipt, in its answer, and so it stays.
func TestLateResultIsUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	held, free := w.holdIn("conclude")
	m := w.call("write_file", `{"path":"app/late.txt","mode":"create"}`, nil)
	w.send(m, nil)
	w.reached(held)
	if err := w.s.End(t.Context(), gate.Killed, "a test"); err != nil {
		t.Fatal(err)
	}
	free()
	want := w.replies(m)[0]
	if want.Verdict != string(sessionlog.Unknown) {
		t.Errorf("answered %+v", want)
	}
	check := func() {
		t.Helper()
		if v := w.proved(); v.Unknown != 1 {
			t.Errorf("the receipt has %d unknown calls", v.Unknown)
		}
		if recs := w.of(w.id(m)); len(recs) != 1 || recs[0].Verdict != sessionlog.Allowed {
			t.Errorf("logged as %+v", recs)
		}
		if r := w.repeat(m); r != want {
			t.Errorf("again: %+v, want %+v", r, want)
		}
	}
	check()
	w.restart()
	check()
}

// TestRepeatFloodIsBounded: a provider that takes nothing off the channel and
// repeats one call holds one goroutine of the requester, not one a repeat.
func TestRepeatFloodIsBounded(t *testing.T) {
	w := offered(t, nil)
	w.attach(false)
	w.join()
	w.put("big.bin", strings.Repeat("0123456789abcde\n", 16<<10))
	m := w.blind("read_file", `{"path":"app/big.bin","offset":0,"length":262144,"max_bytes":98304}`, "")
	w.send(m, nil)
	w.until("it has run", func() bool { return w.s.Log().Head().Size == 3 && w.s.View().Running == 0 })
	before := runtime.NumGoroutine()
	for range 3000 {
		w.send(m, nil)
	}
	w.taken()
	if grown := runtime.NumGoroutine() - before; grown > 32 {
		t.Errorf("%d goroutines more", grown)
	}
	if n := w.s.Log().Head().Size; n != 3 {
		t.Errorf("the log has %d records", n)
	}
}
