package sessionlog

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftmesh/weft/store"
)

// until waits for a condition that another goroutine brings about.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen", what)
		}
	}
}

func TestAppendAndReopen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := store.Open(store.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	l := openLog(t, db)
	if l.Head() != (Head{Root: new(tree).head(0).Root}) {
		t.Errorf("an empty log has head %+v", l.Head())
	}
	var heads []Head
	for i, r := range story() {
		a := mustAppend(t, l, r)
		if a.First != uint64(i) || len(a.Leaves) != 1 || a.Head.Size != uint64(i+1) || a.Head != l.Head() {
			t.Fatalf("append %d: %+v, head %+v", i, a, l.Head())
		}
		heads = append(heads, a.Head)
	}
	totals, leaves := l.Totals(), leavesOf(t, l)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	if db, err = store.Open(store.Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	l = openLog(t, db)
	if l.Head() != heads[len(heads)-1] {
		t.Error("the head changed over a restart")
	}
	if diff := cmp.Diff(totals, l.Totals()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(leaves, leavesOf(t, l)); diff != "" {
		t.Error(diff)
	}
	for i, h := range heads {
		if got, err := l.HeadAt(uint64(i + 1)); err != nil || got != h {
			t.Errorf("head at %d: %v", i+1, err)
		}
	}
	if diff := cmp.Diff(map[string]string{"c5": "read_file"}, l.OpenCalls()); diff != "" {
		t.Error(diff)
	}
	if err := l.CheckHead(Head{Size: 99}); !errors.Is(err, ErrGap) {
		t.Errorf("a head beyond the end: %v", err)
	}
	if err := l.CheckHead(Head{Size: 3}); !errors.Is(err, ErrFork) {
		t.Errorf("another root: %v", err)
	}
	if got, err := l.Leaves(10, 100); err != nil || len(got) != 2 {
		t.Errorf("leaves from 10: %d, %v", len(got), err)
	}
	if got, err := l.Leaves(12, 1); err != nil || len(got) != 0 {
		t.Errorf("leaves past the end: %d, %v", len(got), err)
	}
}

// TestSessionsApart: two sessions in one store don't see each other.
func TestSessionsApart(t *testing.T) {
	t.Parallel()
	db := openStore(t)
	l := openLog(t, db)
	mustAppend(t, l, opened())
	other, err := Open(db, testSession[:25])
	if err != nil {
		t.Fatal(err)
	}
	if other.Head().Size != 0 {
		t.Error("a session with a shorter id sees the other's records")
	}
	if _, err := Open(db, "../x"); !errors.Is(err, ErrRecord) {
		t.Errorf("a bad session id: %v", err)
	}
}

// TestFill: commitments are under the number that the record gets.
func TestFill(t *testing.T) {
	t.Parallel()
	l := openLog(t, openStore(t))
	key := NewKey()
	mustAppend(t, l, opened())
	c := call("c1", "read_file")
	c.Fill = key.Fill(Values{Path: []byte("app/main.go"), Args: []byte{}})
	a := mustAppend(t, l, c)
	r, err := Decode(a.Leaves[0])
	if err != nil {
		t.Fatal(err)
	}
	if r.Path != key.Commit("path", 1, []byte("app/main.go")) || r.Args != key.Commit("args", 1, nil) || r.Request != "" || r.Result != "" {
		t.Errorf("commitments %+v", r)
	}
}

// TestRefusedAlone: records out of place and refusing alsos hurt nobody else
// and leave nothing behind, even in one write with good ones.
func TestRefusedAlone(t *testing.T) {
	t.Parallel()
	db := openStore(t)
	notes := store.NewCollection[string]("testnotes")
	l := openLog(t, db)
	mustAppend(t, l, opened())
	before := l.Head()

	put := func(key string, err error) func(*store.Tx, uint64) error {
		return func(tx *store.Tx, first uint64) error {
			return errors.Join(notes.Put(tx, key, fmt.Sprint(first)), err)
		}
	}
	refuse := errors.New("no room in the books")
	wants := []struct {
		name string
		recs []Record
		also func(*store.Tx, uint64) error
		want error
	}{
		{"good", []Record{call("c1", "glob")}, put("c1", nil), nil},
		{"malformed", []Record{{Type: "prompt"}}, put("malformed", nil), ErrRecord},
		{"second refused", []Record{call("c2", "glob"), call("c2", "glob")}, put("second", nil), ErrRecord},
		{"also refuses", []Record{call("c3", "glob")}, put("c3", refuse), refuse},
		{"good too", []Record{call("c4", "glob"), result("c4", "glob", OK)}, put("c4", nil), nil},
		{"result of nothing", []Record{result("c9", "glob", OK)}, nil, ErrRecord},
		{"also refuses too", []Record{call("c5", "glob")}, put("c5", refuse), refuse},
		{"last good", []Record{call("c6", "glob")}, put("c6", nil), nil},
	}
	// Hold the turn until all wait, so that they go in one write.
	if err := l.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i, w := range wants {
		wg.Go(func() {
			if _, err := l.Append(context.Background(), w.recs, w.also); !errors.Is(err, w.want) {
				t.Errorf("%s: %v, want %v", w.name, err, w.want)
			}
		})
		until(t, "queueing", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.waiting) == i+1 })
	}
	l.release()
	wg.Wait()

	if got := l.Head().Size; got != before.Size+4 {
		t.Errorf("%d records were added, want 4", got-before.Size)
	}
	kept := map[string]string{}
	if err := db.View(func(tx *store.Tx) error {
		return notes.Each(tx, "", func(k, v string) error { kept[k] = v; return nil })
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"c1": "1", "c4": "2", "c6": "4"}, kept); diff != "" {
		t.Errorf("beside the records:\n%s", diff)
	}
	if l.Err() != nil {
		t.Errorf("the log broke: %v", l.Err())
	}
	// What is in memory is what is on disk.
	again := openLog(t, db)
	if again.Head() != l.Head() || !cmp.Equal(again.Totals(), l.Totals()) || !cmp.Equal(again.OpenCalls(), l.OpenCalls()) {
		t.Error("memory and disk differ")
	}
}

// TestFold: appends that wait together cost one synced transaction.
func TestFold(t *testing.T) {
	t.Parallel()
	db := openStore(t)
	l := openLog(t, db)
	mustAppend(t, l, opened())
	var commits atomic.Int64
	started, gate := make(chan struct{}), make(chan struct{})
	db.SetFault(func(string) error {
		if commits.Add(1) == 1 {
			close(started)
			<-gate
		}
		return nil
	})
	defer db.SetFault(nil)

	const n = 300
	var wg sync.WaitGroup
	firsts := make([]uint64, n)
	add := func(i int) {
		wg.Go(func() {
			id := fmt.Sprint("c", i)
			a, err := l.Append(context.Background(), []Record{call(id, "glob"), result(id, "glob", OK)}, nil)
			if err != nil {
				t.Error(err)
			}
			if len(a.Leaves) != 2 || a.Head.Size != a.First+2 {
				t.Errorf("append %d: first %d, head %d", i, a.First, a.Head.Size)
			}
			if h, err := l.HeadAt(a.Head.Size); err != nil || h != a.Head {
				t.Errorf("append %d: its head is not the log's (%v)", i, err)
			}
			firsts[i] = a.First
		})
	}
	add(0)
	<-started
	for i := 1; i < n; i++ {
		add(i)
	}
	until(t, "queueing", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.waiting) == n-1 })
	close(gate)
	wg.Wait()
	if got := commits.Load(); got > 3 {
		t.Errorf("%d appends took %d commits", n, got)
	}
	seen := map[uint64]bool{}
	for _, f := range firsts {
		if f%2 != 1 || seen[f] {
			t.Errorf("an append began at %d", f)
		}
		seen[f] = true
	}
	if l.Head().Size != 2*n+1 {
		t.Errorf("%d records", l.Head().Size)
	}
}

// TestStoreFailure is case 73: when the log can't be written, nothing may run
// any more, also after the disk works again; and no record is invented.
func TestStoreFailure(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{"full disk": syscall.ENOSPC, "broken disk": syscall.EIO} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			db, err := store.Open(store.Options{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			l := openLog(t, db)
			mustAppend(t, l, opened(), call("c1", "glob"))
			before, totals := l.Head(), l.Totals()
			db.SetFault(func(string) error { return cause })
			a, err := l.Append(t.Context(), []Record{call("c2", "glob")}, nil)
			if !errors.Is(err, ErrUnavailable) || !errors.Is(err, cause) || a.Leaves != nil {
				t.Errorf("append: %+v, %v", a, err)
			}
			db.SetFault(nil)
			for range 2 {
				if _, err := l.Append(t.Context(), []Record{call("c3", "glob")}, nil); !errors.Is(err, ErrUnavailable) {
					t.Errorf("append after the failure: %v", err)
				}
			}
			if err := l.AppendLeaves(t.Context(), leavesOf(t, l), before, nil); !errors.Is(err, ErrUnavailable) {
				t.Errorf("replica after the failure: %v", err)
			}
			if !errors.Is(l.Err(), ErrUnavailable) {
				t.Errorf("Err: %v", l.Err())
			}
			if l.Head() != before || !cmp.Equal(l.Totals(), totals) {
				t.Error("the failed record is in the log")
			}
			db.Close()

			if db, err = store.Open(store.Options{Dir: dir}); err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			l = openLog(t, db)
			if l.Head() != before {
				t.Errorf("after reopening: %d records, want %d", l.Head().Size, before.Size)
			}
			mustAppend(t, l, ended(Aborted))
		})
	}
}

// TestFailureInCrowd: all that wait get the failure, none hangs.
func TestFailureInCrowd(t *testing.T) {
	t.Parallel()
	db := openStore(t)
	l := openLog(t, db)
	mustAppend(t, l, opened())
	db.SetFault(func(string) error { return syscall.ENOSPC })
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			if _, err := l.Append(context.Background(), []Record{call(fmt.Sprint("c", i), "glob")}, nil); !errors.Is(err, ErrUnavailable) {
				t.Errorf("append %d: %v", i, err)
			}
		})
	}
	wg.Wait()
}

// TestOpenedTwice: two Logs of one session can't both write.
func TestOpenedTwice(t *testing.T) {
	t.Parallel()
	db := openStore(t)
	a, b := openLog(t, db), openLog(t, db)
	mustAppend(t, a, opened())
	if _, err := b.Append(t.Context(), []Record{opened()}, nil); !errors.Is(err, ErrUnavailable) {
		t.Errorf("the second writer: %v", err)
	}
	if openLog(t, db).Head() != a.Head() {
		t.Error("the second writer wrote")
	}
}

func TestAppendContext(t *testing.T) {
	t.Parallel()
	l := openLog(t, openStore(t))
	mustAppend(t, l, opened())
	if err := l.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := l.Append(ctx, []Record{call("c1", "glob")}, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("append: %v", err)
		}
	})
	until(t, "queueing", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.waiting) == 1 })
	cancel()
	wg.Wait()
	l.release()
	if l.Head().Size != 1 || len(l.waiting) != 0 {
		t.Error("the cancelled record is in the log")
	}
	mustAppend(t, l, call("c1", "glob"))
}

func TestAppendLimits(t *testing.T) {
	t.Parallel()
	l := openLog(t, openStore(t))
	for name, recs := range map[string][]Record{"none": nil, "too many": make([]Record, MaxAppend+1)} {
		if _, err := l.Append(t.Context(), recs, nil); !errors.Is(err, ErrRecord) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFull: a full log takes results and the end, but no further call.
func TestFull(t *testing.T) {
	t.Parallel()
	l := openLog(t, openStore(t))
	mustAppend(t, l, opened(), call("c1", "glob"))
	// A true log of that size takes a minute; the check looks at the tree only.
	grow := func(size int) *staged {
		for int(l.tree.size()) < size {
			l.tree.push(leafHash(nil))
		}
		return l.stage()
	}
	s := grow(MaxRecords - reserve)
	if _, err := s.record(call("c2", "glob")); !errors.Is(err, ErrFull) {
		t.Errorf("a call in the reserve: %v", err)
	}
	l.tally.totals.Records = l.tree.size()
	if _, err := s.record(result("c1", "glob", OK)); err != nil {
		t.Errorf("a result in the reserve: %v", err)
	}
	s = grow(MaxRecords)
	if _, err := s.record(ended(Closed)); !errors.Is(err, ErrFull) {
		t.Errorf("past the last record: %v", err)
	}
}

// TestStoredGarbage: a log that was changed on disk doesn't open.
func TestStoredGarbage(t *testing.T) {
	t.Parallel()
	for name, leaves := range map[string][][]byte{
		"not a record":     {[]byte("x")},
		"another session":  {encodeAs(t, "othersession", opened())},
		"wrong number":     {encodeAs(t, testSession, opened()), encodeAs(t, testSession, opened())},
		"result of nobody": {encodeAs(t, testSession, opened()), encodeAs(t, testSession, Record{Seq: 1, Type: Result, Call: "c", Tool: "glob", Verdict: OK})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := openStore(t)
			if err := db.Update(t.Context(), func(tx *store.Tx) error {
				_, err := records.Append(tx, testSession, leaves...)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(db, testSession); !errors.Is(err, ErrRecord) {
				t.Errorf("opened: %v", err)
			}
		})
	}
}

func encodeAs(t *testing.T, session string, r Record) []byte {
	t.Helper()
	r.V, r.Session = Version, session
	if r.Time == 0 {
		r.Time = 1
	}
	leaf, err := r.encode()
	if err != nil {
		t.Fatal(err)
	}
	return leaf
}
