package provider_test

import (
	"bytes"
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/weftmesh/weft/protocols/session"
	"github.com/weftmesh/weft/workspace/gate"
	"github.com/weftmesh/weft/workspace/sessionlog"
)

// TestBodyFlood: answers of 4 MiB without end cost bounded memory, whatever is
// wrong with them, and the session goes on (design.md section 14, point 7).
func TestBodyFlood(t *testing.T) {
	w := newWorld(t)
	body := bytes.Repeat([]byte("flood\x00\xff\n"), session.MaxBody/8)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	most := uint64(0)
	for i := range 60 {
		r := session.Result{Call: uuid.NewString(), Verdict: "ok", Kind: "binary", Size: w.log.Head().Size, Root: rootHex(w.log.Head())}
		r.First = r.Size
		m, err := session.EncodeResult(r, body)
		switch i % 3 {
		case 0: // sound, for a call that nobody made
			m = w.sign(m, err)
		case 1: // a broken signature
			m = w.sign(m, err)
			m.Sig[0] ^= 1
		default: // a header that doesn't decode
			m.Header = []byte(`{"x":1}`)
			m = w.sign(m, err)
		}
		w.queue(m, nil)
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		most = max(most, now.HeapInuse)
	}
	w.settle()
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapInuse) - int64(before.HeapInuse); grown > 24<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
	if peak := int64(most) - int64(before.HeapInuse); peak > 192<<20 { // both ends, their windows and garbage
		t.Errorf("the heap rose by %d MiB", peak>>20)
	}
	w.works()
}

// TestLargestAnswer: an answer beyond what any tool gives reaches the agent as
// a failure that a stock client can take.
func TestLargestAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := w.call("read_file", `{"path":"app/a.txt"}`)
	body := strings.Repeat("\x01", session.MaxBody)
	w.append(w.ran(f, sessionlog.OK, "", body)...)
	w.send(w.answer(f, "ok", "", body, nil), nil)
	r, err := w.end(f)
	if err != nil || len(r.Body) != session.MaxBody {
		t.Fatalf("%d bytes, %v", len(r.Body), err)
	}
	shown := text(t, r.MCP())
	if !strings.HasPrefix(shown, "FAILED too_large") || len(shown) > 1000 || !r.MCP().IsError {
		t.Errorf("the agent gets %.200q", shown)
	}
	w.works()
}

// TestProgressFlood: progress that nobody reads, or that is for calls that
// don't exist, holds nothing up. What is shown comes in order.
func TestProgressFlood(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stuck, reading := make(chan struct{}), make(chan struct{}, 1)
	release := sync.OnceFunc(func() { close(stuck) })
	t.Cleanup(release) // before the world closes
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	slow := w.callWith(ctx, "run_command", `{"argv":["make"]}`, func(uint64, string) {
		select {
		case reading <- struct{}{}:
		default:
		}
		<-stuck
	})
	line := strings.Repeat("x", 4096)
	send := func(call string, n uint64, text string) {
		w.queue(session.EncodeProgress(session.Progress{Call: call, N: n, Text: text}))
	}
	for n := range uint64(3000) {
		send(slow.call.ID, n+1, line)
		send(uuid.NewString(), n, "for nobody")
	}
	w.settle() // all were dealt with while the reader stands still
	<-reading
	w.works()

	var seen []uint64
	quick := w.callWith(t.Context(), "run_command", `{"argv":["make"]}`, func(n uint64, _ string) { seen = append(seen, n) })
	for _, n := range []uint64{0, 1, 3, 2, 3, 3, 9, 8, 10} {
		send(quick.call.ID, n, "step")
	}
	w.settle()
	w.reply(quick, "exit=0")
	for i, n := range seen {
		if i > 0 && n <= seen[i-1] {
			t.Errorf("progress came as %v", seen)
			break
		}
	}
	release()
	w.reply(slow, "exit=0 late")
}

// TestStateFlood: saying the same again costs no write.
func TestStateFlood(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.send(session.EncodeState(session.State{State: "paused", Reason: "x"}))
	writes := 0
	w.db.SetFault(func(string) error { writes++; return nil })
	for range 500 {
		w.queue(session.EncodeState(session.State{State: "paused", Reason: "x"}))
	}
	w.settle()
	w.db.SetFault(nil)
	if writes > 0 {
		t.Errorf("%d writes for what was known", writes)
	}
	if w.s.State() != gate.Paused {
		t.Errorf("the state is %s", w.s.State())
	}
	w.works()
}
