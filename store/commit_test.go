package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Many writers against a map: each function must see exactly what the ones
// before it kept, whether they share its commit or not, and a failed one must
// leave nothing, also when a whole commit is refused.
func TestUpdatesAgainstAModel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := open(t, Options{Dir: dir})
	// Both belong to the committer, which calls the fault and the functions.
	kept := map[string]string{}    // what is durable
	pending := map[string]string{} // and what the batch would make of it
	faults := rand.New(rand.NewPCG(5, 6))
	var refusals atomic.Int64
	db.SetFault(func(string) error {
		if faults.IntN(10) == 0 {
			pending = maps.Clone(kept)
			refusals.Add(1)
			return syscall.EIO
		}
		kept = maps.Clone(pending)
		return nil
	})
	values := NewCollection[string]("test/model")
	mine := errors.New("mine")
	step := func(tx *Tx, r *rand.Rand) error {
		// What is visible.
		prefix := []string{"", "a", "b1", "zz"}[r.IntN(4)]
		want := map[string]string{}
		for k, v := range pending {
			if strings.HasPrefix(k, prefix) {
				want[k] = v
			}
		}
		var order []string
		got := map[string]string{}
		err := values.Each(tx, prefix, func(k, v string) error { got[k] = v; order = append(order, k); return nil })
		if err != nil || !maps.Equal(want, got) || !slices.IsSorted(order) || values.Count(tx, prefix) != len(want) {
			t.Errorf("prefix %q: got %v, want %v, %v", prefix, got, want, err)
		}
		// What this one does.
		next := maps.Clone(pending)
		for range 1 + r.IntN(4) {
			k := string("abz"[r.IntN(3)]) + strconv.Itoa(r.IntN(12))
			if v, err := values.Get(tx, k); v != next[k] || errors.Is(err, ErrNotFound) == (next[k] != "") {
				t.Errorf("%q = %q, %v, want %q", k, v, err, next[k])
			}
			if r.IntN(3) == 0 {
				delete(next, k)
				if err := values.Delete(tx, k); err != nil {
					return err
				}
				continue
			}
			next[k] = strconv.FormatUint(r.Uint64(), 36)
			if err := values.Put(tx, k, next[k]); err != nil {
				return err
			}
		}
		if r.IntN(4) == 0 {
			return mine
		}
		pending = next
		return nil
	}
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(7, uint64(w)))
			for range 60 {
				err := db.Update(context.Background(), func(tx *Tx) error { return step(tx, r) })
				if err != nil && err != mine && !errors.Is(err, ErrDisk) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if refusals.Load() == 0 {
		t.Error("no commit was refused")
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, Options{Dir: dir})
	got := map[string]string{}
	view(t, db, func(tx *Tx) error {
		return values.Each(tx, "", func(k, v string) error { got[k] = v; return nil })
	})
	if !maps.Equal(kept, got) {
		t.Errorf("after a restart: got %v, want %v", got, kept)
	}
}

// A view sees whole updates: money is neither made nor lost, in updates of one
// transaction and in those applied in parts.
func TestViewsSeeWholeUpdates(t *testing.T) {
	t.Parallel()
	const accounts = 4000 // with values of 300 bytes: two redo parts and more
	db := open(t, Options{})
	pad := strings.Repeat("x", 290)
	set := func(tx *Tx, round int) error {
		for i := range accounts {
			if err := blobs.Put(tx, strconv.Itoa(i), fmt.Appendf(nil, "%d %s", round, pad)); err != nil {
				return err
			}
		}
		return nil
	}
	update(t, db, func(tx *Tx) error { return set(tx, 0) })
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for seen := 0; ; seen++ {
				select {
				case <-stop:
					if seen == 0 {
						t.Error("no view finished")
					}
					return
				default:
				}
				rounds := map[string]int{}
				err := db.View(func(tx *Tx) error {
					return blobs.Each(tx, "", func(_ string, v []byte) error {
						round, _, _ := strings.Cut(string(v), " ")
						rounds[round]++
						return nil
					})
				})
				if err != nil || len(rounds) != 1 {
					t.Errorf("torn view: %v, %v", rounds, err)
				}
			}
		})
	}
	for round := 1; round <= 12; round++ {
		update(t, db, func(tx *Tx) error { return set(tx, round) })
	}
	close(stop)
	wg.Wait()
}

// Waiting functions that don't fit one transaction are split between whole
// functions, and all are kept.
func TestBatchesAreSplit(t *testing.T) {
	t.Parallel()
	db := open(t, Options{})
	inside, free := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := db.Update(context.Background(), func(*Tx) error { close(inside); <-free; return nil }); err != nil {
			t.Error(err)
		}
	})
	<-inside
	commits := 0
	db.SetFault(func(string) error { commits++; return nil })
	const writers, each = 40, 300
	started := make(chan struct{}, writers)
	for w := range writers {
		wg.Go(func() {
			started <- struct{}{}
			err := db.Update(context.Background(), func(tx *Tx) error {
				for i := range each {
					if err := blobs.Put(tx, fmt.Sprintf("%d/%d", w, i), value(w, uint64(i), 256)); err != nil {
						return err
					}
				}
				// All of an earlier function or nothing.
				for o := range writers {
					if n := blobs.Count(tx, fmt.Sprintf("%d/", o)); n != 0 && n != each {
						return fmt.Errorf("%d sees %d values of %d", w, n, o)
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range writers {
		<-started
	}
	close(free)
	wg.Wait()
	view(t, db, func(tx *Tx) error {
		if n := blobs.Count(tx, ""); n != writers*each {
			t.Errorf("%d values, want %d", n, writers*each)
		}
		return nil
	})
	db.SetFault(nil)
	if commits < 2 {
		t.Errorf("%d commits: nothing was split", commits)
	}
}

// The largest things that are allowed work, in one update.
func TestLargeUpdate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := open(t, Options{Dir: dir})
	tests := map[string]struct{ n, size int }{
		"four of 1 MiB":       {4, 1 << 20},
		"10,000 of 400 bytes": {10000, 400},
		"60,000 of 1 byte":    {60000, 1},
		"4,000 of 1,100":      {4000, 1100},
	}
	for name, tt := range tests {
		update(t, db, func(tx *Tx) error {
			for i := range tt.n {
				if err := blobs.Put(tx, fmt.Sprintf("%s/%d", name, i), value(0, uint64(i), tt.size)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, Options{Dir: dir})
	for name, tt := range tests {
		view(t, db, func(tx *Tx) error {
			if n := blobs.Count(tx, name); n != tt.n {
				t.Errorf("%s: %d kept", name, n)
			}
			for _, i := range []int{0, tt.n - 1} {
				got, err := blobs.Get(tx, fmt.Sprintf("%s/%d", name, i))
				if err != nil || string(got) != string(value(0, uint64(i), tt.size)) {
					t.Errorf("%s: value %d: %d bytes, %v", name, i, len(got), err)
				}
			}
			return nil
		})
	}
}

// A write that failed half way stops the store until it is opened again.
func TestBrokenStoreRefusesEverything(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := open(t, Options{Dir: dir})
	update(t, db, func(tx *Tx) error { return blobs.Put(tx, "before", nil) })
	// What Badger says when the sync of a value log fails, and says nowhere else.
	db.noise.Errorf("Error while curlf sync: %v\n", syscall.EIO)
	put := func(*Tx) error { return nil }
	err := db.Update(t.Context(), func(tx *Tx) error { return blobs.Put(tx, "during", nil) })
	if !errors.Is(err, ErrBroken) {
		t.Errorf("during: %v", err)
	}
	if err := db.Update(t.Context(), put); !errors.Is(err, ErrBroken) {
		t.Errorf("update after: %v", err)
	}
	if err := db.View(put); !errors.Is(err, ErrBroken) {
		t.Errorf("view after: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	db = open(t, Options{Dir: dir})
	view(t, db, func(tx *Tx) error {
		if ok, err := blobs.Has(tx, "before"); !ok || err != nil {
			t.Errorf("before: %v, %v", ok, err)
		}
		return nil
	})
}

// Replacing and deleting must not fill the disk: neither many small values nor
// a few large ones, whose keys alone would never make Badger merge tables.
func TestGarbageIsCollected(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("writes 500 MB")
	}
	tests := map[string]struct{ updates, n, size int }{
		"large": {80, 4, 1 << 20},
		"small": {250, 400, 900},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := open(t, Options{})
			for u := range tt.updates {
				update(t, db, func(tx *Tx) error {
					for i := range tt.n {
						if err := blobs.Put(tx, strconv.Itoa(i), value(i, uint64(u), tt.size)); err != nil {
							return err
						}
					}
					return nil
				})
			}
			const limit = 150 << 20
			deadline := time.NewTimer(30 * time.Second)
			defer deadline.Stop()
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for db.Size() > limit {
				select {
				case <-tick.C:
				case <-deadline.C:
					t.Fatalf("%d MB on the disk for %d MB of values", db.Size()>>20, tt.n*tt.size>>20)
				}
			}
			view(t, db, func(tx *Tx) error {
				for i := range tt.n {
					got, err := blobs.Get(tx, strconv.Itoa(i))
					if err != nil || string(got) != string(value(i, uint64(tt.updates-1), tt.size)) {
						t.Errorf("value %d: %v", i, err)
					}
				}
				return nil
			})
			t.Logf("%d MB written, %d MB on the disk", tt.updates*tt.n*tt.size>>20, db.Size()>>20)
		})
	}
}
