package provider_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftmesh/weft/protocols/session"
	"github.com/weftmesh/weft/store"
	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/gate"
	"github.com/weftmesh/weft/workspace/provider"
	"github.com/weftmesh/weft/workspace/sessionlog"
)

// reload ends the provider's process life and begins another from the same
// store.
func (w *world) reload() {
	w.t.Helper()
	w.stop()
	if err := w.s.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.wg.Wait()
	s, err := provider.Load(w.cfg, w.grant.Session)
	if err != nil {
		w.t.Fatal(err)
	}
	w.s = s
	w.s.Start()
	w.connect()
}

// TestRestartOfTheProvider: calls in flight end with the process that made
// them, no call number is ever used twice, and the replica goes on.
func TestRestartOfTheProvider(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var seqs []uint64
	for life := range 5 {
		f, g := w.call("stat", `{"path":"app/a.txt"}`), w.call("read_file", `{"path":"app/a.txt"}`)
		if life == 2 { // one life answers, so the replica grows
			w.reply(f, "app/a.txt file")
		}
		seqs = append(seqs, f.call.Seq, g.call.Seq)
		before := w.s.Log().Head()
		w.reload()
		for _, x := range []*flight{f, g} {
			if _, err := w.end(x); !errors.Is(err, provider.ErrDisconnected) && (life != 2 || x != f) {
				t.Errorf("life %d: the call in flight got %v", life, err)
			}
		}
		j, err := session.DecodeJoined(w.wait(session.KindJoined))
		if err != nil || j.Size != before.Size || j.Root != rootHex(before) {
			t.Errorf("life %d: joined with %d records, %v", life, j.Size, err)
		}
	}
	for i := range seqs[1:] {
		if seqs[i+1] <= seqs[i] {
			t.Errorf("call numbers %v", seqs)
			break
		}
	}
	w.works()
}

// TestCallNumbersAndStates: many calls and changes of state at once, over
// restarts. A state that is stored late must not bring back old call numbers.
func TestCallNumbersAndStates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	used := map[uint64]bool{}
	for range 6 {
		var calls sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		const n = 20
		for range n {
			calls.Go(func() { w.s.Call(ctx, "stat", []byte(`{"path":"app"}`), nil, nil) })
		}
		for i := range 10 {
			w.queue(session.EncodeState(session.State{State: []string{"paused", "open"}[i%2], Reason: fmt.Sprint(i)}))
		}
		for range n {
			c, err := session.DecodeCall(w.wait(session.KindCall))
			if err != nil {
				t.Fatal(err)
			}
			if used[c.Seq] {
				t.Fatalf("call number %d was used twice", c.Seq)
			}
			used[c.Seq] = true
		}
		w.settle()
		cancel()
		calls.Wait()
		w.reload()
		if w.s.State() != gate.Open || w.s.Reason() != "9" {
			t.Fatalf("after a restart the state is %s %q, the last that came was open 9", w.s.State(), w.s.Reason())
		}
	}
}

// TestRestartOfTheRequester: the new process asks for nothing; the provider
// sends every call in flight again, byte for byte, and takes the answers,
// whether their records come with them or ahead.
func TestRestartOfTheRequester(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lost, done := w.call("write_file", `{"path":"app/x","mode":"create"}`), w.call("read_file", `{"path":"app/a.txt"}`)
	// The old process ran one of them and died before its answer left.
	w.append(w.ran(done, sessionlog.OK, "", "alpha")...)
	w.disconnect()
	w.live()
	w.welcome(nil)
	j, err := session.DecodeJoined(w.wait(session.KindJoined))
	if err != nil || j.Size != 1 {
		t.Fatalf("joined with %d records, %v", j.Size, err)
	}
	again := map[string]session.Message{}
	for len(again) < 2 {
		m := w.wait(session.KindCall)
		c, err := session.DecodeCall(m)
		if err != nil {
			t.Fatal(err)
		}
		again[c.ID] = m
	}
	for _, f := range []*flight{lost, done} {
		m := again[f.call.ID]
		if !bytes.Equal(m.Header, f.msg.Header) || !bytes.Equal(m.Body, f.msg.Body) || !bytes.Equal(m.Sig, f.msg.Sig) {
			t.Errorf("call %s was sent anew, not again", f.call.ID)
		}
	}
	w.push() // as a joined requester does
	w.send(w.answer(done, "ok", "", "alpha", nil), nil)
	if r, err := w.end(done); err != nil || string(r.Body) != "alpha" {
		t.Errorf("the stored answer came as %+v, %v", r, err)
	}
	w.reply(lost, "app/x created")
	w.works()
	if pending, _ := w.s.Waiting(); pending != 0 {
		t.Errorf("%d calls still wait", pending)
	}
}

// TestUnknownOutcome: a call that the requester's crash cut off ends as
// unknown, and the agent is told.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := w.call("write_file", `{"path":"app/x","mode":"create"}`)
	w.append(w.intent(f))
	w.push()
	w.disconnect()
	w.live()
	w.welcome(nil)
	w.wait(session.KindCall)
	const text = "FAILED unknown: it may or may not have been done"
	w.append(w.outcome(f, sessionlog.Unknown, "restarted", text))
	w.send(w.answer(f, "unknown", "restarted", text, nil), nil)
	r, err := w.end(f)
	if err != nil || r.Verdict != "unknown" || string(r.Body) != text || !r.MCP().IsError {
		t.Errorf("got %+v, %v", r, err)
	}
	w.works()
}

// TestManyInFlight: calls beyond the bound are refused here, and the rest go
// on.
func TestManyInFlight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const most = 256
	var all []*flight
	for range most {
		all = append(all, w.call("stat", `{"path":"app/a.txt"}`))
	}
	r, err := w.s.Call(t.Context(), "stat", []byte(`{"path":"app"}`), nil, nil)
	if err != nil || r.Code != string(workspace.RateLimited) || !strings.HasPrefix(string(r.Body), "DENIED rate_limited") {
		t.Fatalf("call %d got %+v, %v", most+1, r, err)
	}
	// Answers in the other order, with the records in one bundle.
	slices.Reverse(all)
	for _, f := range all {
		w.append(w.ran(f, sessionlog.OK, "", "ok "+f.call.ID)...)
	}
	for i := 0; i < 2*most; i += 256 {
		records, err := w.log.Leaves(w.cursor, 256)
		if err != nil {
			t.Fatal(err)
		}
		head, err := w.log.HeadAt(w.cursor + uint64(len(records)))
		if err != nil {
			t.Fatal(err)
		}
		m := session.Records{First: w.cursor, Size: head.Size, Root: rootHex(head)}
		for _, leaf := range records {
			m.Records = append(m.Records, leaf)
		}
		w.cursor = head.Size
		w.send(w.sign(session.EncodeRecords(m)), nil)
	}
	for _, f := range all {
		w.queue(w.answer(f, "ok", "", "ok "+f.call.ID, nil), nil)
	}
	for _, f := range all {
		if r, err := w.end(f); err != nil || string(r.Body) != "ok "+f.call.ID {
			t.Fatalf("got %+v, %v", r, err)
		}
	}
	w.works()
}

// TestNobodyAnswers: a call without a deadline is given up when the requester
// would not run it any more.
func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.s.SetLongest(50 * time.Millisecond)
	f := w.call("stat", `{"path":"app"}`)
	if _, err := w.end(f); !errors.Is(err, provider.ErrDisconnected) {
		t.Errorf("got %v", err)
	}
	c, err := session.DecodeCancel(w.wait(session.KindCancel))
	if err != nil || c.ID != f.call.ID {
		t.Errorf("cancelled %+v, %v", c, err)
	}
	w.s.SetLongest(patience)
	w.works()
}

// TestDeadline: the requester is told how long the agent waits.
func TestDeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	f := w.callWith(ctx, "stat", `{"path":"app"}`, nil)
	if ms := f.call.DeadlineMS; ms < 60_000 || ms > 300_000 {
		t.Errorf("a deadline of %d ms", ms)
	}
	w.reply(f, "app dir")
	short, stop := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer stop()
	f = w.callWith(short, "stat", `{"path":"app"}`, nil)
	if _, err := w.end(f); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// TestStoreFails: an answer that the requester's log holds reaches the agent
// even if this side's copy can't be kept; later calls are refused, and after a
// restart the session goes on with nothing missing.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := w.call("stat", `{"path":"app"}`)
	w.append(w.ran(f, sessionlog.OK, "", "app dir")...)
	w.db.SetFault(func(string) error { return errors.New("I/O error") })
	w.send(w.answer(f, "ok", "", "app dir", nil), nil)
	if r, err := w.end(f); err != nil || r.Verdict != "ok" {
		t.Errorf("the call in flight got %+v, %v", r, err)
	}
	r, err := w.s.Call(t.Context(), "stat", []byte(`{"path":"app"}`), nil, nil)
	if !errors.Is(err, provider.ErrStore) && (err != nil || r.Code != string(workspace.LogUnavailable)) {
		t.Errorf("a call without a log got %+v, %v", r, err)
	}
	w.db.SetFault(nil)
	w.reload()
	j, err := session.DecodeJoined(w.wait(session.KindJoined))
	if err != nil || j.Size != 1 {
		t.Fatalf("joined with %d records, %v", j.Size, err)
	}
	w.cursor = j.Size
	w.push()
	w.works()
}

// TestNumbersAreReservedFirst: while call numbers can't be stored, no call is
// sent under one.
func TestNumbersAreReservedFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.db.SetFault(func(string) error { return errors.New("I/O error") })
	for range 3 {
		if _, err := w.s.Call(t.Context(), "stat", []byte(`{"path":"app"}`), nil, nil); err == nil {
			t.Fatal("a call went out under a number that isn't stored")
		}
	}
	w.db.SetFault(nil)
	if got := w.came(); got[session.KindCall] != 0 {
		t.Errorf("%d calls went out", got[session.KindCall])
	}
	f := w.call("stat", `{"path":"app"}`)
	first := f.call.Seq
	w.reload()
	if g := w.call("stat", `{"path":"app"}`); g.call.Seq <= first {
		t.Errorf("call %d after %d", g.call.Seq, first)
	}
}

// TestAcceptOnce: a session is accepted once, whoever asks again at the same
// time, and what was kept stays.
func TestAcceptOnce(t *testing.T) {
	t.Parallel()
	w := newStranger(t)
	w.send(session.EncodeState(session.State{State: "paused", Reason: "kept"}))
	for range 2 {
		if s, err := provider.Accept(t.Context(), w.cfg, w.doc.Raw()); !errors.Is(err, provider.ErrTaken) {
			t.Fatalf("accepted again: %v, %v", s, err)
		}
	}
	all, err := provider.List(w.db)
	if err != nil || len(all) != 1 || all[0].State != gate.Paused || all[0].Settled {
		t.Errorf("kept: %+v, %v", all, err)
	}

	// What belongs to an acceptance happens with it or not at all.
	other := newStranger(t)
	db := openStore(t)
	defer db.Close()
	cfg := other.cfg
	cfg.DB = db
	boom := errors.New("boom")
	if _, err := provider.Accept(t.Context(), cfg, other.doc.Raw(), func(*store.Tx) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	if all, err := provider.List(db); err != nil || len(all) != 0 {
		t.Errorf("kept: %+v, %v", all, err)
	}
	if _, err := provider.Load(cfg, other.grant.Session); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("loaded: %v", err)
	}
	// Another node's grant is not ours to accept.
	cfg.Key = w.mine
	if _, err := provider.Accept(t.Context(), cfg, other.doc.Raw()); err == nil {
		t.Error("accepted a grant for somebody else")
	}
}

// TestLeaveAndGone: this side can end a session, and learn that the other let
// it go.
func TestLeaveAndGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := w.s.Leave("done\nwith \x1b[31mit" + strings.Repeat("é", 200)); err != nil {
		t.Fatal(err)
	}
	l, err := session.DecodeLeave(w.wait(session.KindLeave))
	if err != nil || !strings.HasPrefix(l.Reason, "done with") || strings.ContainsAny(l.Reason, "\n\x1b") || len(l.Reason) > 200 {
		t.Errorf("the reason is %q, %v", l.Reason, err)
	}
	f := w.call("stat", `{"path":"app"}`)
	w.s.Gone("no such session")
	if r, err := w.end(f); err != nil || r.Code != string(workspace.Killed) {
		t.Errorf("the call in flight got %+v, %v", r, err)
	}
	if !w.s.LetGo() || w.s.State() != gate.Closed {
		t.Errorf("the state is %s, let go %t", w.s.State(), w.s.LetGo())
	}
	if all, err := provider.List(w.db); err != nil || len(all) != 1 || !all[0].Settled {
		t.Errorf("kept: %+v, %v", all, err)
	}
}
