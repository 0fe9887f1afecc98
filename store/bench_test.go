package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// BenchmarkFsync is the floor: append 400 bytes to a file and sync it. Compare
// with Update in the same run only, disks differ by the minute.
func BenchmarkFsync(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "raw"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	rec := make([]byte, 400)
	for b.Loop() {
		if _, err := f.Write(rec); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
}

// benchUpdate has callers that each append a 400-byte record, one at a time.
func benchUpdate(b *testing.B, callers int) {
	db := open(b, Options{})
	rec := make([]byte, 400)
	var commits atomic.Int64
	db.SetFault(func(string) error { commits.Add(1); return nil })
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for c := range callers {
		wg.Go(func() {
			for next.Add(1) <= int64(b.N) {
				err := db.Update(context.Background(), func(tx *Tx) error {
					_, err := events.Append(tx, strconv.Itoa(c), rec)
					return err
				})
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/float64(commits.Load()), "updates/commit")
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(commits.Load()), "µs/commit")
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N), "ns/update")
}

func BenchmarkUpdate1(b *testing.B)  { benchUpdate(b, 1) }
func BenchmarkUpdate16(b *testing.B) { benchUpdate(b, 16) }
func BenchmarkUpdate64(b *testing.B) { benchUpdate(b, 64) }

func BenchmarkViewGet(b *testing.B) {
	db := open(b, Options{})
	update(b, db, func(tx *Tx) error {
		for i := range 1000 {
			if err := people.Put(tx, fmt.Sprint(i), person{Name: "Ann", Age: i}); err != nil {
				return err
			}
		}
		return nil
	})
	b.ReportAllocs()
	for b.Loop() {
		view(b, db, func(tx *Tx) error { _, err := people.Get(tx, "500"); return err })
	}
}

func BenchmarkLogRead1000(b *testing.B) {
	db := open(b, Options{})
	rec := make([]byte, 400)
	update(b, db, func(tx *Tx) error {
		for range 1000 {
			if _, err := events.Append(tx, "s", rec); err != nil {
				return err
			}
		}
		return nil
	})
	for b.Loop() {
		view(b, db, func(tx *Tx) error { _, err := events.Read(tx, "s", 0, 1000); return err })
	}
}

func BenchmarkOpenClose(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		if err := tryOpen(Options{Dir: dir}); err != nil {
			b.Fatal(err)
		}
	}
}
