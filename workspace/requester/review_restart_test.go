package requester_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/weftmesh/weft/protocols/session"
	"github.com/weftmesh/weft/workspace/gate"
	"github.com/weftmesh/weft/workspace/sessionlog"
)

// powerFails lets n more commits happen and none after. What the process does
// afterwards is lost, as when the machine went down there.
func (w *world) powerFails(n int64) (gone func() bool) {
	var left atomic.Int64
	left.Store(n)
	w.db.SetFault(func(string) error {
		if left.Add(-1) < 0 {
			return syscall.EIO
		}
		return nil
	})
	return func() bool { return left.Load() < 0 }
}

// once checks that a call is in the log as it must be: at most one call that
// was allowed, with its one result right when it has an answer.
func (w *world) once(m session.Message, r reply) {
	w.t.Helper()
	allowed, results := 0, 0
	for _, rec := range w.of(w.id(m)) {
		switch {
		case rec.Type == sessionlog.Call && rec.Verdict == sessionlog.Allowed:
			allowed++
		case rec.Type == sessionlog.Result:
			results++
			if string(rec.Verdict) != r.Verdict || rec.Code != r.Code {
				w.t.Errorf("call %s: the log says %s %s, the answer %s %s", w.id(m), rec.Verdict, rec.Code, r.Verdict, r.Code)
			}
		default:
			w.t.Errorf("call %s: unexpected record %+v", w.id(m), rec)
		}
	}
	if allowed != 1 || results != 1 {
		w.t.Errorf("call %s: allowed %d times, %d results", w.id(m), allowed, results)
	}
}

// TestRestartInTheMiddleOfCalls: wherever the requester's process ends, each
// call that ran is in the log once, each gets one answer for good, none runs
// twice, and the receipt proves it.
func TestRestartInTheMiddleOfCalls(t *testing.T) {
	t.Parallel()
	cases := map[string]int64{"closed at once": -1}
	for n := range int64(10) {
		cases[fmt.Sprintf("power fails after %d commits", n)] = n
	}
	each(t, cases, func(t *testing.T, n int64) {
		w := newWorld(t, nil)
		gone := func() bool { return true }
		if n >= 0 {
			gone = w.powerFails(n)
		}
		var calls []session.Message
		for i := range 8 {
			m := w.call("write_file", fmt.Sprintf(`{"path":"app/f%d.txt","mode":"create"}`, i), nil)
			calls = append(calls, m)
			w.send(m, nil)
			if i%2 == 1 { // some side by side, some one after the other
				w.until("these are over", func() bool { return n < 0 || gone() || w.s.View().Running == 0 })
			}
		}
		w.restart()
		if st := w.s.View().State; st != gate.Open {
			t.Fatalf("after the restart it is %s", st)
		}
		var first []reply
		for i, m := range calls {
			r := w.repeat(m)
			first = append(first, r)
			switch r.Verdict {
			case "ok":
				if !w.has(fmt.Sprintf("f%d.txt", i)) {
					t.Errorf("call %d was answered and not done", i)
				}
			case "unknown":
				if r.Code != "restarted" || !strings.Contains(r.Text, "may or may not") {
					t.Errorf("call %d: %+v", i, r)
				}
			default: // "failed, it exists" would be a second run
				if r.Code != "cancelled" || w.has(fmt.Sprintf("f%d.txt", i)) { // by the orderly end of the process
					t.Errorf("call %d: %+v", i, r)
				}
			}
			w.once(m, r)
		}
		size := w.s.Log().Head().Size
		w.restart()
		for i, m := range calls {
			if r := w.repeat(m); r != first[i] {
				t.Errorf("call %d again: %+v, want %+v", i, r, first[i])
			}
		}
		if now := w.s.Log().Head().Size; now != size {
			t.Errorf("answering again wrote %d records", now-size)
		}
		if err := w.s.End(t.Context(), gate.Closed, "a test"); err != nil {
			t.Fatal(err)
		}
		unknown := uint64(0)
		for _, r := range first {
			if r.Verdict == "unknown" {
				unknown++
			}
		}
		if v := w.proved(); v.Calls != uint64(len(calls)) || v.Unknown != unknown {
			t.Errorf("the receipt has %d calls, %d unknown; want %d, %d", v.Calls, v.Unknown, len(calls), unknown)
		}
	})
}

// TestUnknownOutcomeIsTold: a call that ran and whose result was lost is
// unknown to both sides, and is not run again.
func TestUnknownOutcomeIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	gone := w.powerFails(1) // its intent
	m := w.call("write_file", `{"path":"app/done.txt","mode":"create"}`, nil)
	w.send(m, nil)
	w.until("the power is gone", gone)
	w.state(gate.Aborted) // of the process that is about to end
	if !w.has("done.txt") {
		t.Fatal("the call has not run")
	}
	w.restart()
	if err := os.Remove(filepath.Join(w.dir, "done.txt")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r := w.repeat(m)
		if r.Verdict != "unknown" || r.Code != "restarted" {
			t.Errorf("got %+v", r)
		}
		w.once(m, r)
	}
	if w.has("done.txt") {
		t.Error("it ran again")
	}
	if err := w.s.End(t.Context(), gate.Closed, "a test"); err != nil {
		t.Fatal(err)
	}
	if v := w.proved(); v.Unknown != 1 || v.Calls != 1 {
		t.Errorf("the receipt has %d unknown of %d calls", v.Unknown, v.Calls)
	}
}

// TestStoredAnswerAfterRestart: an answer is given again as it was, to the
// byte, from the store alone; what was refused stays refused.
func TestStoredAnswerAfterRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	read := w.call("read_file", `{"path":"app/a.txt"}`, nil)
	write := w.call("write_file", `{"path":"app/new.txt","mode":"create"}`, nil)
	secret := w.call("read_file", `{"path":"app/.env"}`, nil)
	calls := []session.Message{read, write, secret}
	var want []reply
	for _, m := range calls {
		want = append(want, w.repeat(m))
	}
	size := w.s.Log().Head().Size
	w.put("a.txt", "something else\n")
	if err := os.Remove(filepath.Join(w.dir, "new.txt")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		w.restart()
		for i, m := range calls {
			if r := w.repeat(m); r != want[i] {
				t.Errorf("call %d: %+v, want %+v", i, r, want[i])
			}
		}
	}
	if w.has("new.txt") || w.s.Log().Head().Size != size {
		t.Error("a call ran again")
	}
	// Another call under a number of the former life is refused.
	again := w.call("write_file", `{"path":"app/new.txt","mode":"create"}`, func(c *session.Call) { c.Seq = 2 })
	if r := w.repeat(again); r.Verdict != "denied" || w.has("new.txt") {
		t.Errorf("a used number: %+v", r)
	}
}

// TestRestartInTheMiddleOfTheEnd: a stop that a crash cuts short is either
// undone, so that it can be made again, or is finished by the restart.
func TestRestartInTheMiddleOfTheEnd(t *testing.T) {
	t.Parallel()
	cases := map[string]int64{}
	for n := range int64(4) {
		cases[fmt.Sprintf("power fails after %d commits", n)] = n
	}
	each(t, cases, func(t *testing.T, n int64) {
		w := newWorld(t, nil)
		m := w.call("write_file", `{"path":"app/new.txt","mode":"create"}`, nil)
		want := w.repeat(m)
		w.powerFails(n)
		if err := w.s.End(t.Context(), gate.Killed, "a test"); (err == nil) != (n >= 3) {
			t.Errorf("stop: %v", err)
		}
		w.restart()
		if st := w.s.View().State; n == 0 {
			if st != gate.Open {
				t.Fatalf("after the restart it is %s", st)
			}
			if err := w.s.End(t.Context(), gate.Killed, "a test"); err != nil {
				t.Fatal(err)
			}
		} else if st != gate.Killed {
			t.Fatalf("after the restart it is %s", st)
		}
		ends := 0
		for _, r := range w.records() {
			if r.Type == sessionlog.Killed {
				ends++
			}
		}
		if ends != 1 {
			t.Errorf("the log has %d ends", ends)
		}
		w.proved()
		if r := w.repeat(m); r != want {
			t.Errorf("the call again: %+v, want %+v", r, want)
		}
	})
}
