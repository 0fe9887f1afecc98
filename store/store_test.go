package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type person struct {
	Name string `json:"name"`
	Age  int    `json:"age,omitzero"`
}

var (
	people = NewCollection[person]("test/people")
	blobs  = NewCollection[[]byte]("test/blobs")
	events = NewLog("test/events")
	nonces = NewGuard("test/nonces")
)

func TestCollection(t *testing.T) {
	t.Parallel()
	db := open(t, Options{})
	update(t, db, func(tx *Tx) error {
		for _, n := range []string{"b", "a/2", "a/1", "c"} {
			if err := people.Put(tx, n, person{Name: n}); err != nil {
				return err
			}
		}
		if n := people.Count(tx, ""); n != 4 {
			t.Errorf("own writes counted %d, want 4", n)
		}
		return nil
	})
	update(t, db, func(tx *Tx) error {
		if err := people.Delete(tx, "b"); err != nil {
			return err
		}
		if err := people.Put(tx, "a/3", person{Name: "new"}); err != nil {
			return err
		}
		// Writing inside Each neither shows in it nor disturbs it.
		return people.Each(tx, "a/", func(k string, v person) error {
			return people.Put(tx, "a/z"+k[2:], v)
		})
	})
	var got []string
	view(t, db, func(tx *Tx) error {
		if _, err := people.Get(tx, "b"); !errors.Is(err, ErrNotFound) {
			t.Errorf("deleted value: %v", err)
		}
		if ok, err := people.Has(tx, "c"); !ok || err != nil {
			t.Errorf("Has(c) = %v, %v", ok, err)
		}
		if err := people.Put(tx, "x", person{}); !errors.Is(err, ErrReadOnly) {
			t.Errorf("put in a view: %v", err)
		}
		return people.Each(tx, "", func(k string, v person) error {
			got = append(got, k+"="+v.Name)
			return nil
		})
	})
	want := []string{"a/1=a/1", "a/2=a/2", "a/3=new", "a/z1=a/1", "a/z2=a/2", "a/z3=new", "c=c"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestEachStopsWithTheCallersError(t *testing.T) {
	t.Parallel()
	db := open(t, Options{})
	mine := errors.New("enough")
	update(t, db, func(tx *Tx) error {
		return errors.Join(blobs.Put(tx, "a", nil), blobs.Put(tx, "b", []byte("x")))
	})
	n := 0
	err := db.View(func(tx *Tx) error {
		return blobs.Each(tx, "", func(string, []byte) error { n++; return mine })
	})
	if err != mine || n != 1 {
		t.Errorf("got %v after %d", err, n)
	}
}

func TestBadNamesAndSizes(t *testing.T) {
	t.Parallel()
	db := open(t, Options{})
	big := make([]byte, maxValue+1)
	tests := map[string]struct {
		do   func(*Tx) error
		want error // nil: any error
	}{
		"collection name": {do: func(tx *Tx) error { return NewCollection[int]("A B").Put(tx, "k", 1) }},
		"empty name":      {do: func(tx *Tx) error { return NewCollection[int]("").Put(tx, "k", 1) }},
		"log name":        {do: func(tx *Tx) error { _, err := NewLog("\x00").Append(tx, "s", nil); return err }},
		"guard name":      {do: func(tx *Tx) error { return NewGuard("").Consume(tx, "x", time.Now().Add(time.Hour)) }},
		"empty key":       {do: func(tx *Tx) error { return blobs.Put(tx, "", nil) }, want: ErrTooLarge},
		"long key":        {do: func(tx *Tx) error { return blobs.Put(tx, strings.Repeat("k", maxKey+1), nil) }, want: ErrTooLarge},
		"large value":     {do: func(tx *Tx) error { return blobs.Put(tx, "k", big) }, want: ErrTooLarge},
		"large record":    {do: func(tx *Tx) error { _, err := events.Append(tx, "s", big); return err }, want: ErrTooLarge},
		"NUL in a stream": {do: func(tx *Tx) error { _, err := events.Append(tx, "a\x00b", nil); return err }},
		"large update": {do: func(tx *Tx) error {
			for i := range 8 {
				if err := blobs.Put(tx, fmt.Sprint(i), big[1:]); err != nil {
					return err
				}
			}
			return nil
		}, want: ErrTooLarge},
		"many keys": {do: func(tx *Tx) error {
			for i := range maxTxWrites + 1 {
				if err := blobs.Put(tx, fmt.Sprint(i), nil); err != nil {
					return err
				}
			}
			return nil
		}, want: ErrTooLarge},
	}
	for name, tt := range tests {
		err := db.Update(t.Context(), tt.do)
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
	}
	view(t, db, func(tx *Tx) error {
		if n := blobs.Count(tx, ""); n != 0 {
			t.Errorf("%d values of refused updates", n)
		}
		return nil
	})
}

func TestTxEndsWithItsFunction(t *testing.T) {
	t.Parallel()
	db := open(t, Options{})
	var kept *Tx
	update(t, db, func(tx *Tx) error { kept = tx; return nil })
	if err := blobs.Put(kept, "k", nil); !errors.Is(err, ErrTxDone) {
		t.Errorf("put: %v", err)
	}
	view(t, db, func(tx *Tx) error { kept = tx; return nil })
	if _, err := blobs.Get(kept, "k"); !errors.Is(err, ErrTxDone) {
		t.Errorf("get: %v", err)
	}
	if err := blobs.Each(kept, "", nil); !errors.Is(err, ErrTxDone) {
		t.Errorf("each: %v", err)
	}
}

// Bytes go in and come out as copies: neither side can change the other's.
func TestValuesAreCopies(t *testing.T) {
	t.Parallel()
	db := open(t, Options{})
	in := []byte("before")
	update(t, db, func(tx *Tx) error {
		if err := blobs.Put(tx, "k", in); err != nil {
			return err
		}
		copy(in, "xxxxxx")
		out, err := blobs.Get(tx, "k")
		if err == nil {
			copy(out, "yyyyyy")
		}
		return err
	})
	view(t, db, func(tx *Tx) error {
		out, err := blobs.Get(tx, "k")
		if string(out) != "before" {
			t.Errorf("stored %q", out)
		}
		return err
	})
}

func TestLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := open(t, Options{Dir: dir})
	rec := func(i int) []byte { return fmt.Appendf(nil, "record %d", i) }
	update(t, db, func(tx *Tx) error {
		for i := range 5 {
			if n, err := events.Append(tx, "s", rec(2*i), rec(2*i+1)); err != nil || n != uint64(2*i+2) {
				return fmt.Errorf("append: %d, %w", n, err)
			}
		}
		// A stream whose name extends another's must not leak into it.
		_, err := events.Append(tx, "s2", []byte("other"))
		return err
	})
	update(t, db, func(tx *Tx) error {
		if _, err := events.Append(tx, "s", rec(10)); err != nil {
			return err
		}
		got, err := events.Read(tx, "s", 8, 100) // from the disk and the overlay
		if d := cmp.Diff([][]byte{rec(8), rec(9), rec(10)}, got); d != "" {
			t.Error(d)
		}
		return err
	})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, Options{Dir: dir})
	view(t, db, func(tx *Tx) error {
		if n, err := events.Len(tx, "s"); n != 11 || err != nil {
			t.Errorf("len %d, %v", n, err)
		}
		got, err := events.Read(tx, "s", 3, 2)
		if d := cmp.Diff([][]byte{rec(3), rec(4)}, got); d != "" {
			t.Error(d)
		}
		for _, from := range []uint64{11, 1 << 60} {
			if got, err := events.Read(tx, "s", from, 5); len(got) != 0 || err != nil {
				t.Errorf("read from %d: %q, %v", from, got, err)
			}
		}
		if got, err := events.Read(tx, "none", 0, 5); len(got) != 0 || err != nil {
			t.Errorf("read no stream: %q, %v", got, err)
		}
		return err
	})
}

// One read stays bounded however much is asked for.
func TestLogReadIsBounded(t *testing.T) {
	t.Parallel()
	db := open(t, Options{})
	one := make([]byte, 1<<20)
	for range 5 {
		update(t, db, func(tx *Tx) error {
			_, err := events.Append(tx, "s", one, one)
			return err
		})
	}
	view(t, db, func(tx *Tx) error {
		got, err := events.Read(tx, "s", 0, 1000)
		if len(got) != 8 || err != nil {
			t.Errorf("first read: %d records, %v", len(got), err)
		}
		got, err = events.Read(tx, "s", 8, 1000)
		if len(got) != 2 || err != nil {
			t.Errorf("second read: %d records, %v", len(got), err)
		}
		return nil
	})
}

func TestLogWithAMissingRecordIsCorrupt(t *testing.T) {
	t.Parallel()
	for _, gone := range []uint64{1, 2} {
		db := open(t, Options{})
		update(t, db, func(tx *Tx) error {
			_, err := events.Append(tx, "s", []byte("a"), []byte("b"), []byte("c"))
			return err
		})
		update(t, db, func(tx *Tx) error {
			return tx.put(recordKey(events.name, "s", gone), write{gone: true})
		})
		err := db.View(func(tx *Tx) error { _, err := events.Read(tx, "s", 0, 10); return err })
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("record %d missing: %v", gone, err)
		}
	}
}

func TestGuard(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// The clock of the test is years from the wall clock, which must not matter.
	var clock struct {
		sync.Mutex
		t time.Time
	}
	clock.t = time.Date(2020, 5, 6, 7, 8, 9, 0, time.UTC)
	now := func() time.Time { clock.Lock(); defer clock.Unlock(); return clock.t }
	forward := func(d time.Duration) { clock.Lock(); clock.t = clock.t.Add(d); clock.Unlock() }
	db := open(t, Options{Dir: dir, Now: now})
	consume := func(id string, d time.Duration) error {
		return db.Update(t.Context(), func(tx *Tx) error { return nonces.Consume(tx, id, now().Add(d)) })
	}
	if err := consume("a", time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := consume("a", time.Hour); !errors.Is(err, ErrReplay) {
		t.Errorf("second use: %v", err)
	}
	if err := consume("b", 0); err == nil || errors.Is(err, ErrReplay) {
		t.Errorf("an entry that protects nothing: %v", err)
	}
	err := db.Update(t.Context(), func(tx *Tx) error {
		if err := nonces.Consume(tx, "c", now().Add(time.Hour)); err != nil {
			return err
		}
		return nonces.Consume(tx, "c", now().Add(time.Hour))
	})
	if !errors.Is(err, ErrReplay) {
		t.Errorf("twice in one update: %v", err)
	}
	if err := consume("c", time.Hour); err != nil {
		t.Errorf("the failed update burnt the id: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, Options{Dir: dir, Now: now})
	if err := consume("a", time.Minute); !errors.Is(err, ErrReplay) {
		t.Errorf("after a restart: %v", err)
	}
	forward(59999 * time.Millisecond)
	if err := consume("a", time.Minute); !errors.Is(err, ErrReplay) {
		t.Errorf("a millisecond before its end: %v", err)
	}
	forward(time.Millisecond)
	if err := consume("a", time.Minute); err != nil {
		t.Errorf("at its end: %v", err)
	}
	if err := consume("c", time.Minute); !errors.Is(err, ErrReplay) {
		t.Errorf("the longer one: %v", err)
	}
}

func TestCloseIsIdempotentAndFinal(t *testing.T) {
	t.Parallel()
	db := open(t, Options{})
	for range 3 {
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Update(t.Context(), func(*Tx) error { return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("update: %v", err)
	}
	if err := db.View(func(*Tx) error { return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("view: %v", err)
	}
}

// Every update that was accepted before Close is answered, and durable if nil.
func TestCloseDrains(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := open(t, Options{Dir: dir})
	var wg sync.WaitGroup
	acked := make([]bool, 200)
	started := make(chan struct{}, len(acked))
	for i := range acked {
		wg.Go(func() {
			started <- struct{}{}
			err := db.Update(context.Background(), func(tx *Tx) error { return blobs.Put(tx, fmt.Sprint(i), nil) })
			if err != nil && !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
			acked[i] = err == nil
		})
	}
	for range 50 {
		<-started
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	db = open(t, Options{Dir: dir})
	view(t, db, func(tx *Tx) error {
		for i, want := range acked {
			if got, err := blobs.Has(tx, fmt.Sprint(i)); got != want || err != nil {
				t.Errorf("%d: acknowledged %v, present %v, %v", i, want, got, err)
			}
		}
		return nil
	})
}

func TestUpdateStopsWaitingWithItsContext(t *testing.T) {
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
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := db.Update(ctx, func(*Tx) error { t.Error("ran"); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := db.Update(ctx, func(*Tx) error { t.Error("ran"); return nil }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cancelled in the queue: %v", err)
	}
	close(free)
	wg.Wait()
	update(t, db, func(*Tx) error { return nil })
}

func TestFault(t *testing.T) {
	t.Parallel()
	db := open(t, Options{})
	put := func() error {
		return db.Update(t.Context(), func(tx *Tx) error { return blobs.Put(tx, "k", []byte("v")) })
	}
	db.SetFault(func(op string) error { return &os.PathError{Op: op, Path: "disk", Err: syscall.ENOSPC} })
	if err := put(); !errors.Is(err, ErrFull) {
		t.Errorf("no space: %v", err)
	}
	db.SetFault(func(string) error { return syscall.EIO })
	if err := put(); !errors.Is(err, ErrDisk) || !errors.Is(err, syscall.EIO) {
		t.Errorf("input/output error: %v", err)
	}
	db.SetFault(nil)
	view(t, db, func(tx *Tx) error {
		if ok, err := blobs.Has(tx, "k"); ok || err != nil {
			t.Errorf("a refused write is there: %v, %v", ok, err)
		}
		return nil
	})
	if err := put(); err != nil {
		t.Errorf("after the fault: %v", err)
	}
}

// Anything may be a key: order and bounds are those of the bytes.
func TestKeysAreBytes(t *testing.T) {
	t.Parallel()
	db := open(t, Options{})
	keys := []string{"\x00", "\x00\x00", "a", "a\x00", "a\xff", "\xff", "\xff\xff"}
	update(t, db, func(tx *Tx) error {
		for _, k := range keys {
			if err := blobs.Put(tx, k, []byte(k)); err != nil {
				return err
			}
		}
		return NewCollection[[]byte]("test/blobs0").Put(tx, "neighbour", nil)
	})
	var got []string
	view(t, db, func(tx *Tx) error {
		return blobs.Each(tx, "", func(k string, v []byte) error {
			if !bytes.Equal([]byte(k), v) {
				t.Errorf("key %q has %q", k, v)
			}
			got = append(got, k)
			return nil
		})
	})
	if d := cmp.Diff(keys, got); d != "" {
		t.Error(d)
	}
}
