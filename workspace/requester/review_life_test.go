package requester_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weftmesh/weft/protocols/session"
	"github.com/weftmesh/weft/workspace/gate"
	"github.com/weftmesh/weft/workspace/requester"
	"github.com/weftmesh/weft/workspace/sessionlog"
)

// TestFolderGoneAtRestartPauses: a session whose folder is away is not lost.
// It waits for the folder, and can be stopped and expire without it.
func TestFolderGoneAtRestartPauses(t *testing.T) {
	t.Parallel()
	each(t, map[string]func(*world){
		"it goes on when the folder is back": func(w *world) {
			m := w.call("read_file", `{"path":"app/a.txt"}`, nil)
			w.send(m, nil)
			w.running(1)
			if err := w.s.Resume(w.t.Context()); !errors.Is(err, requester.ErrState) {
				w.t.Errorf("resume without the folder: %v", err)
			}
			if err := os.Rename(w.dir+".away", w.dir); err != nil {
				w.t.Fatal(err)
			}
			if err := w.s.Resume(w.t.Context()); err != nil {
				w.t.Fatal(err)
			}
			if r := w.replies(m)[0]; r.Verdict != "ok" || !strings.Contains(r.Text, "alpha") {
				w.t.Errorf("the call that waited got %+v", r)
			}
		},
		"it can be stopped": func(w *world) {
			m := w.call("read_file", `{"path":"app/a.txt"}`, nil)
			w.send(m, nil)
			w.running(1)
			if err := w.s.End(w.t.Context(), gate.Killed, "a test"); err != nil {
				w.t.Fatal(err)
			}
			if r := w.replies(m)[0]; r.Verdict != "denied" {
				w.t.Errorf("the call that waited got %+v", r)
			}
			w.proved()
		},
		"it expires": func(w *world) {
			w.skew.Store(int64(2 * time.Hour))
			w.state(gate.Lapsed)
			w.proved()
		},
	}, func(t *testing.T, then func(*world)) {
		w := newWorld(t, nil)
		w.down()
		if err := os.Rename(w.dir, w.dir+".away"); err != nil {
			t.Fatal(err)
		}
		w.up()
		if v := w.s.View(); v.State != gate.Paused || v.Reason == "" {
			t.Fatalf("the state is %s, %q", v.State, v.Reason)
		}
		w.connect()
		then(w)
	})
}

// TestExpiryWithFullChannel: a provider that takes nothing off the channel
// does not put off the expiry.
func TestExpiryWithFullChannel(t *testing.T) {
	t.Parallel()
	w := offered(t, nil)
	w.attach(false)
	w.join()
	w.put("big.bin", strings.Repeat("0123456789abcde\n", 16<<10))
	const n = 60
	for range n {
		w.send(w.blind("read_file", `{"path":"app/big.bin","offset":0,"length":262144,"max_bytes":98304}`, ""), nil)
	}
	w.until("the channel has no room for an answer", func() bool {
		return w.s.Channel().State().Queued > session.Window-2<<20 && w.s.Log().Head().Size > n
	})
	w.skew.Store(int64(31 * time.Second)) // a checkpoint is due, and there is no room for it
	w.ticks()
	w.skew.Store(int64(2 * time.Hour))
	w.state(gate.Lapsed)
	w.proved()
}

// TestUnsignedLogPauses: a provider that works and never signs the log is
// paused after a minute; one that signs is not.
func TestUnsignedLogPauses(t *testing.T) {
	t.Parallel()
	each(t, map[string]bool{"signs nothing": false, "signs with its calls": true}, func(t *testing.T, signs bool) {
		w := newWorld(t, nil)
		stat := `{"path":"app"}`
		w.ask(w.blind("stat", stat, ""))
		w.wait(session.KindCheckpoint)
		if signs {
			w.ask(w.call("stat", stat, nil))
		} else {
			w.ask(w.blind("stat", stat, ""))
		}
		w.skew.Store(int64(61 * time.Second))
		if !signs {
			w.state(gate.Paused)
			return
		}
		w.ticks()
		if v := w.s.View(); v.State != gate.Open {
			t.Errorf("it is %s: %s", v.State, v.Reason)
		}
	})
}

// TestPauseOutlivesCaller: a pause whose caller has gone away is complete, and
// still there after a restart.
func TestPauseOutlivesCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.s.Pause(gone, "a test"); err != nil {
		t.Fatal(err)
	}
	recs := w.records()
	if last := recs[len(recs)-1]; w.s.View().State != gate.Paused || last.Type != sessionlog.Paused {
		t.Fatalf("the state is %s, the log ends with %s", w.s.View().State, last.Type)
	}
	w.restart()
	if v := w.s.View(); v.State != gate.Paused || v.Reason != "a test" {
		t.Fatalf("after the restart it is %s, %q", v.State, v.Reason)
	}
	if err := w.s.Resume(gone); err != nil {
		t.Fatal(err)
	}
	if r, _ := w.ask(w.call("stat", `{"path":"app"}`, nil)); r.Verdict != "ok" {
		t.Errorf("after resume: %+v", r)
	}
}

// TestSnapshotsInOrder: what is stored of a session that many pause and resume
// at once, while it is closed, is its last state.
func TestSnapshotsInOrder(t *testing.T) {
	t.Parallel()
	for range 3 {
		w := newWorld(t, nil)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 20 {
					// Each may find the session in the other state; the outcome is in the log.
					errs := errors.Join(w.s.Pause(t.Context(), "a test"), w.s.Resume(t.Context()))
					if errs != nil && !errors.Is(errs, requester.ErrState) {
						t.Error(errs)
					}
				}
			})
		}
		w.cut()
		w.s.Close()
		wg.Wait()
		w.db.Close()
		w.up()
		want := gate.Open
		for _, r := range w.records() {
			switch r.Type {
			case sessionlog.Paused:
				want = gate.Paused
			case sessionlog.Resumed:
				want = gate.Open
			}
		}
		if got := w.s.View().State; got != want {
			t.Errorf("the log says %s, the store %s", want, got)
		}
	}
}

// TestBrokenLogEnds: a log that could not be written ends the session. The
// provider hears no path of this machine, and a restart writes the end.
func TestBrokenLogEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	var once sync.Once
	w.db.SetFault(func(string) (err error) {
		once.Do(func() { err = syscall.EIO })
		return err
	})
	m := w.call("write_file", `{"path":"app/unlogged.txt","mode":"create"}`, nil)
	w.send(m, nil)
	w.state(gate.Aborted)
	st, err := session.DecodeState(w.wait(session.KindState))
	if err != nil {
		t.Fatal(err)
	}
	if st.State != string(gate.Aborted) || strings.ContainsRune(st.Reason, os.PathSeparator) || strings.Contains(w.s.View().Reason, w.home) {
		t.Errorf("the provider is told %+v", st)
	}
	if w.has("unlogged.txt") {
		t.Error("a call ran without a record")
	}
	if err := w.s.End(t.Context(), gate.Killed, "a test"); !errors.Is(err, requester.ErrOver) {
		t.Errorf("stop: %v", err)
	}
	w.restart()
	recs := w.records()
	if last := recs[len(recs)-1]; w.s.View().State != gate.Aborted || last.Type != sessionlog.Aborted {
		t.Errorf("after the restart it is %s, and the log ends with %s", w.s.View().State, last.Type)
	}
	w.proved()
	if r := w.repeat(m); r.Verdict != "denied" || w.has("unlogged.txt") {
		t.Errorf("the call again: %+v", r)
	}
}
