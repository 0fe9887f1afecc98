package requester_test

import (
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/protocols/session"
	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/gate"
	"github.com/weftmesh/weft/workspace/grant"
	"github.com/weftmesh/weft/workspace/requester"
	"github.com/weftmesh/weft/workspace/sessionlog"
)

// TestHostileCalls: each bad call is refused with its code and logged, and the
// session goes on (design.md section 14, points 4 and 5).
func TestHostileCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for _, tc := range []struct {
		name, tool, args string
		code             workspace.Code
	}{
		{"unknown tool", "shell", `{}`, workspace.UnknownTool},
		{"arguments are no JSON", "read_file", `{"path":`, workspace.BadArguments},
		{"two paths in one object", "read_file", `{"path":"app/a.txt","path":"app/.env"}`, workspace.BadArguments},
		{"case variant of a name", "read_file", `{"Path":"app/a.txt"}`, workspace.BadArguments},
		{"NUL in a path", "read_file", `{"path":"app/a\u0000.txt"}`, workspace.BadArguments},
		{"number beyond its bounds", "read_file", `{"path":"app/a.txt","max_lines":1000000}`, workspace.BadArguments},
		{"content where none belongs", "stat", `{"path":"app/a.txt"}` + "raw", workspace.BadArguments},
		{"right that was not granted", "run_command", `{"argv":["id"]}`, workspace.NoRight},
		{"absolute path", "read_file", `{"path":"/etc/passwd"}`, workspace.BadPath},
		{"path that climbs", "read_file", `{"path":"app/../../etc/passwd"}`, workspace.BadPath},
		{"root that is not granted", "read_file", `{"path":"app-evil/a.txt"}`, workspace.OutsideGrant},
		{"secret", "read_file", `{"path":"app/.env"}`, workspace.SecretPath},
		{"secret that doesn't exist", "read_file", `{"path":"app/sub/.env.local"}`, workspace.SecretPath},
		{"secret by another case", "read_file", `{"path":"app/.ENV"}`, workspace.SecretPath},
		{"writing a git hook", "write_file", `{"path":"app/.git/hooks/post-commit","mode":"create"}`, workspace.SecretPath},
	} {
		before := w.s.Log().Head().Size
		m := w.call(tc.tool, tc.args, func(c *session.Call) {
			if strings.HasSuffix(tc.args, "raw") {
				c.ArgsLen = len(tc.args) - len("raw")
			}
		})
		r, text := w.ask(m)
		if r.Verdict != "denied" || r.Code != string(tc.code) || !strings.HasPrefix(text, "DENIED "+string(tc.code)) {
			t.Errorf("%s: got %s %s %q, want denied %s", tc.name, r.Verdict, r.Code, text, tc.code)
		}
		if strings.Contains(text, w.dir) || strings.Contains(text, "tk-92f8e1c7b3a64d50") {
			t.Errorf("%s: the answer shows too much: %q", tc.name, text)
		}
		recs := w.records()[before:]
		if len(recs) != 1 || recs[0].Type != sessionlog.Call || recs[0].Verdict != sessionlog.Denied || recs[0].Code != string(tc.code) {
			t.Errorf("%s: logged as %+v", tc.name, recs)
		}
	}
	if r, text := w.ask(w.call("read_file", `{"path":"app/a.txt"}`, nil)); r.Verdict != "ok" || !strings.Contains(text, "alpha") {
		t.Errorf("after all that a sound call got %s %q", r.Verdict, text)
	}
}

// TestReplay: a call runs once, whatever comes again (case 65).
func TestReplay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	write := w.call("write_file", `{"path":"app/once.txt","mode":"create"}`, nil)
	if r, text := w.ask(write); r.Verdict != "ok" {
		t.Fatal(text)
	}
	calls := func() int64 { return w.s.View().Used.Calls }
	n := calls()
	if r, _ := w.ask(write); r.Verdict != "ok" || calls() != n {
		t.Errorf("the same call again: %s after %d more calls, want the stored answer", r.Verdict, calls()-n)
	}
	if err := os.Remove(filepath.Join(w.dir, "once.txt")); err != nil {
		t.Fatal(err)
	}
	w.ask(write)
	if _, err := os.Stat(filepath.Join(w.dir, "once.txt")); !errors.Is(err, os.ErrNotExist) {
		t.Error("a replayed call wrote again")
	}
	first, err := session.DecodeCall(write)
	if err != nil {
		t.Fatal(err)
	}

	// Another call under a used number is refused.
	r, text := w.ask(w.call("write_file", `{"path":"app/two.txt","mode":"create"}`, func(c *session.Call) { c.Seq = first.Seq }))
	if r.Code != string(workspace.BadArguments) {
		t.Errorf("used number: %s %q", r.Code, text)
	}
	// Another call under a used id is logged and gets no answer.
	forged := w.call("write_file", `{"path":"app/three.txt","mode":"create"}`, func(c *session.Call) { c.ID = first.ID })
	w.send(forged, nil)
	if r, _ := w.ask(w.call("stat", `{"path":"app/a.txt"}`, nil)); r.Verdict != "ok" {
		t.Errorf("the session does not go on: %+v", r)
	}
	for _, name := range []string{"two.txt", "three.txt"} {
		if _, err := os.Stat(filepath.Join(w.dir, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s was written", name)
		}
	}
	w.until("both refusals are logged", func() bool {
		denied := 0
		for _, rec := range w.records() {
			if rec.Verdict == sessionlog.Denied {
				denied++
			}
		}
		return denied == 2
	})
}

// TestForgedCalls: a call that its provider didn't sign is logged as
// unreadable and never run.
func TestForgedCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	args := `{"path":"app/forged.txt","mode":"create"}`
	good := w.call("write_file", args, nil)
	for name, forge := range map[string]func() session.Message{
		"signed by a stranger":       func() session.Message { return session.Sign(identity.Generate(), w.s.ID(), good) },
		"signed for another session": func() session.Message { return session.Sign(w.theirs, grant.NewSession(), good) },
		"another body": func() session.Message {
			m := good
			m.Body = []byte(strings.Replace(args, "forged", "froged", 1))
			return m
		},
		"another header": func() session.Message {
			m := good
			m.Header = []byte(strings.Replace(string(m.Header), `"seq":`, `"seq":1`, 1))
			return m
		},
		"a header that doesn't parse": func() session.Message {
			m := good
			m.Header = []byte(`{"id":"../../x"}`)
			return session.Sign(w.theirs, w.s.ID(), m)
		},
		"signature of zeros": func() session.Message { m := good; m.Sig = make([]byte, 64); return m },
	} {
		before := len(w.records())
		w.send(forge(), nil)
		if r, _ := w.ask(w.call("stat", `{"path":"app/a.txt"}`, nil)); r.Verdict != "ok" {
			t.Fatalf("%s: the session does not go on: %+v", name, r)
		}
		recs := w.records()[before:]
		if len(recs) != 3 || recs[0].Call != "unreadable" || recs[0].Code != string(workspace.BadArguments) {
			t.Errorf("%s: logged as %+v", name, recs)
		}
	}
	if _, err := os.Stat(filepath.Join(w.dir, "forged.txt")); !errors.Is(err, os.ErrNotExist) {
		t.Error("a forged call ran")
	}
}

// TestForkEndsSession: a provider that signs a head we never had stops the
// session; its signature is the proof (case 71).
func TestForkEndsSession(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*session.Call){
		"another root":         func(c *session.Call) { c.Root = strings.Repeat("ab", 32) },
		"a log longer than it": func(c *session.Call) { c.Size += 1000 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			r, _ := w.ask(w.call("read_file", `{"path":"app/a.txt"}`, change))
			if r.Verdict != "denied" || r.Code != string(workspace.BadArguments) {
				t.Errorf("got %s %s", r.Verdict, r.Code)
			}
			w.state(gate.Aborted)
			w.until("the receipt is there", func() bool { return w.s.Receipt() != nil })
		})
	}
}

// TestRefusalsPause: fifty refusals hand the decision to the person.
func TestRefusalsPause(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for range gate.PauseAfter {
		w.ask(w.call("read_file", `{"path":"app/.env"}`, nil))
	}
	w.state(gate.Paused)
	held := w.call("read_file", `{"path":"app/a.txt"}`, nil)
	w.send(held, nil)
	if err := w.s.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := session.DecodeCall(held)
	if err != nil {
		t.Fatal(err)
	}
	for {
		r, err := session.DecodeResult(w.wait(session.KindResult))
		if err != nil {
			t.Fatal(err)
		}
		if r.Call == c.ID {
			if r.Verdict != "ok" {
				t.Errorf("the call that waited got %s %s", r.Verdict, r.Code)
			}
			return
		}
	}
}

// TestFlood: a provider that sends without end costs bounded memory, and a
// session's own calls stay within its budget (design.md section 14, point 7).
func TestFlood(t *testing.T) {
	w := newWorld(t, func(g *grant.Grant) { g.Limits.Calls = 200 })
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	big := `{"path":"app/x.txt","mode":"create"}` + strings.Repeat("x", 512<<10)
	for i := range 400 {
		m := w.call("write_file", big, func(c *session.Call) { c.ArgsLen = strings.Index(big, "}") + 1 })
		if i%2 == 0 {
			m.Header = []byte(`{"garbage":true}`)
			m = session.Sign(w.theirs, w.s.ID(), m)
		}
		w.send(m, nil)
		if w.s.View().State == gate.Paused {
			err := w.s.Resume(t.Context())
			if err != nil && !errors.Is(err, requester.ErrState) && !errors.Is(err, requester.ErrOver) {
				t.Fatal(err)
			}
		}
	}
	// What is no call at all, fifty times over, ends the session.
	w.state(gate.Aborted)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapInuse) - int64(before.HeapInuse); grown > 64<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
	if n := w.s.Log().Head().Size; n > 2000 {
		t.Errorf("the log has %d records", n)
	}
	var st syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &st); err == nil {
		t.Logf("peak RSS of the test %d MiB, log %d records", st.Maxrss>>10, w.s.Log().Head().Size)
	}
}

// TestStopKillsAtOnce: after stop nothing runs, what waits is refused, and the
// log ends before the receipt is made.
func TestStopKillsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	if err := w.s.Pause(t.Context(), "a test"); err != nil {
		t.Fatal(err)
	}
	var waiting []string
	for range 5 {
		m := w.call("write_file", `{"path":"app/late.txt","mode":"create"}`, nil)
		c, err := session.DecodeCall(m)
		if err != nil {
			t.Fatal(err)
		}
		waiting = append(waiting, c.ID)
		w.send(m, nil)
	}
	// The calls are in the gate once none of them is undelivered.
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for w.ch.State().Queued > 0 && w.s.Channel().State().Held == 0 {
		select {
		case <-deadline.C:
			t.Fatal("the calls did not arrive")
		default:
			runtime.Gosched()
		}
	}
	began := time.Now()
	if err := w.s.End(t.Context(), gate.Killed, "a test"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("stop took %v", took)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "late.txt")); !errors.Is(err, os.ErrNotExist) {
		t.Error("a call ran after stop")
	}
	if err := w.s.End(t.Context(), gate.Killed, "again"); !errors.Is(err, requester.ErrOver) {
		t.Errorf("stop again: %v", err)
	}
	recs := w.records()
	if last := recs[len(recs)-1]; last.Type != sessionlog.Killed {
		t.Errorf("the log ends with %+v", last)
	}
	got := map[string]string{}
	for len(got) < len(waiting) {
		r, err := session.DecodeResult(w.wait(session.KindResult))
		if err != nil {
			t.Fatal(err)
		}
		got[r.Call] = r.Code
	}
	for _, id := range waiting {
		if got[id] != string(workspace.Killed) {
			t.Errorf("a call that waited got %q", got[id])
		}
	}
}

// TestUnknownCallIDs: ids that are no UUIDs never get as far as the store.
func TestUnknownCallIDs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for _, id := range []string{"", "../x", strings.Repeat("a", 4096), strings.ToUpper(uuid.NewString())} {
		h := `{"id":"` + id + `","seq":9,"tool":"stat","args_len":2,"deadline_ms":0,"size":` + "0" + `,"root":"` + hex.EncodeToString(make([]byte, 32)) + `"}`
		w.send(session.Sign(w.theirs, w.s.ID(), session.Message{Kind: session.KindCall, Header: []byte(h), Body: []byte("{}")}), nil)
	}
	if r, _ := w.ask(w.call("stat", `{"path":"app/a.txt"}`, nil)); r.Verdict != "ok" {
		t.Errorf("got %+v", r)
	}
	unreadable := 0
	for _, rec := range w.records() {
		if rec.Call == "unreadable" {
			unreadable++
		}
	}
	if unreadable != 4 {
		t.Errorf("%d unreadable calls are logged, want 4", unreadable)
	}
}
