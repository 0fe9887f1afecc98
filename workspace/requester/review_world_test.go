package requester_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftmesh/weft/protocols/session"
	"github.com/weftmesh/weft/store"
	"github.com/weftmesh/weft/workspace/receipt"
	"github.com/weftmesh/weft/workspace/requester"
	"github.com/weftmesh/weft/workspace/sessionlog"
)

// reply is an answer as the provider sees it.
type reply struct{ Verdict, Code, Text string }

// id is a call message's id.
func (w *world) id(m session.Message) string {
	w.t.Helper()
	c, err := session.DecodeCall(m)
	if err != nil {
		w.t.Fatal(err)
	}
	return c.ID
}

// replies waits for the answers to calls that were sent, one each.
func (w *world) replies(calls ...session.Message) []reply {
	w.t.Helper()
	at := map[string]int{}
	for i, m := range calls {
		at[w.id(m)] = i
	}
	out := make([]reply, len(calls))
	for len(at) > 0 {
		m := w.wait(session.KindResult)
		r, err := session.DecodeResult(m)
		if err != nil {
			w.t.Fatal(err)
		}
		if i, asked := at[r.Call]; asked {
			out[i] = reply{r.Verdict, r.Code, string(m.Body)}
			delete(at, r.Call)
		}
	}
	return out
}

// blind makes a call that acknowledges nothing of the log.
func (w *world) blind(tool, args, content string) session.Message {
	w.t.Helper()
	zero := w.empty()
	return w.call(tool, args+content, func(c *session.Call) {
		c.ArgsLen = len(args)
		c.Size, c.Root = zero.Size, hexRoot(zero)
	})
}

// taken waits until the requester is done with everything that was sent.
func (w *world) taken() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	if err := w.ch.Drain(ctx); err != nil {
		w.t.Fatal(err)
	}
}

// ticks waits until the session looked at its clock a few times more: while
// nothing else goes on, only its ticker does.
func (w *world) ticks() {
	w.t.Helper()
	before := w.asks.Load()
	w.until("the session has ticked", func() bool { return w.asks.Load() >= before+3 })
}

// running waits until n calls are under way.
func (w *world) running(n int) {
	w.t.Helper()
	w.until("calls are under way", func() bool { return w.s.View().Running == n })
}

// put writes a file into the shared folder.
func (w *world) put(name, content string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// has reports whether a file is in the shared folder.
func (w *world) has(name string) bool {
	_, err := os.Stat(filepath.Join(w.dir, name))
	return err == nil
}

// cut ends the stream; both channels live on.
func (w *world) cut() {
	w.stop()
	w.wg.Wait()
}

// down ends the requester's process life as a crash does: its session is not
// ended, and its store is closed. What it sent before has arrived or is lost.
func (w *world) down() {
	w.t.Helper()
	w.cut()
	w.s.Close()
	w.db.Close()
	for len(w.inbox) > 0 {
		w.learn(<-w.inbox)
	}
}

// up begins the next process life.
func (w *world) up() {
	w.t.Helper()
	var err error
	if w.db, err = store.Open(store.Options{Dir: filepath.Join(w.home, "store")}); err != nil {
		w.t.Fatal(err)
	}
	w.cfg.DB = w.db
	s, err := requester.Load(w.t.Context(), w.cfg, w.s.ID())
	if err != nil {
		w.t.Fatalf("load after a restart: %v", err)
	}
	w.s = s
	w.s.Start()
}

// restart is a crash and a new life that the provider has joined.
func (w *world) restart() {
	w.t.Helper()
	w.down()
	w.up()
	w.connect()
}

// proved checks that the receipt covers the whole log, and every number in it.
func (w *world) proved() receipt.Verdict {
	w.t.Helper()
	w.until("the receipt is there", func() bool { return w.s.Receipt() != nil })
	head := w.s.Log().Head()
	leaves, err := w.s.Log().Leaves(0, int(head.Size))
	if err != nil {
		w.t.Fatal(err)
	}
	v, err := receipt.VerifyLog(leaves, w.s.Receipt())
	if err != nil {
		w.t.Fatalf("the receipt does not match the log: %v", err)
	}
	if v.Records != head.Size {
		w.t.Errorf("the receipt covers %d records of %d", v.Records, head.Size)
	}
	return v
}

// of picks the records of one call.
func (w *world) of(call string) (out []sessionlog.Record) {
	w.t.Helper()
	for _, r := range w.records() {
		if r.Call == call {
			out = append(out, r)
		}
	}
	return out
}

// each runs a test for every named case, side by side.
func each[T any](t *testing.T, cases map[string]T, run func(*testing.T, T)) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, c)
		})
	}
}

// repeat sends a call again and returns its answer.
func (w *world) repeat(m session.Message) reply {
	w.t.Helper()
	w.send(m, nil)
	return w.replies(m)[0]
}

// holdIn stops whoever looks at the clock from within a method of the session,
// until free. held is closed once one stands there.
func (w *world) holdIn(method string) (held chan struct{}, free func()) {
	held = make(chan struct{})
	gate := make(chan struct{})
	var once sync.Once
	hold := func() {
		if !calledFrom("(*Session)." + method) {
			return
		}
		once.Do(func() { close(held) })
		<-gate
	}
	w.hold.Store(&hold)
	free = sync.OnceFunc(func() {
		w.hold.Store(nil)
		close(gate)
	})
	w.t.Cleanup(free) // before the world's own
	return held, free
}

// calledFrom reports whether a function is among the callers.
func calledFrom(name string) bool {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, name) {
			return true
		}
		if !more {
			return false
		}
	}
}

// reached waits for a signal.
func (w *world) reached(signal <-chan struct{}) {
	w.t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case <-signal:
	case <-timeout.C:
		w.t.Fatal("it did not come that far")
	}
}
