package sessionlog

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/weftmesh/weft/store"
)

// BenchmarkRecord is what one record costs without the store: three salted
// commitments, the encoding, the rules, the tree and its new root.
func BenchmarkRecord(b *testing.B) {
	key := NewKey()
	v := Values{Path: []byte("app/src/main.go"), Args: []byte(`{"path":"app/src/main.go"}`), Request: make([]byte, 32)}
	db, err := store.Open(store.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	l := openLog(b, db)
	s := l.stage()
	if _, err := s.records([]Record{opened()}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if l.tree.size() > MaxRecords-reserve-2 {
			s.undo()
			s.records([]Record{opened()})
		}
		r := denied("0190c2f0-7f3a-7000-8000-0123456789ab", "read_file", "secret_path")
		if i%2 == 0 {
			r = call(fmt.Sprintf("0190c2f0-7f3a-7000-8000-%012d", i), "read_file")
		}
		r.Fill = key.Fill(v)
		if _, err := s.records([]Record{r}); err != nil {
			b.Fatal(err)
		}
		i++
	}
	b.StopTimer()
	s.undo()
}

// BenchmarkAppend is one caller, each append synced.
func BenchmarkAppend(b *testing.B) { benchAppend(b, 1) }

// BenchmarkAppend64 is 64 callers that share the syncs.
func BenchmarkAppend64(b *testing.B) { benchAppend(b, 64) }

func benchAppend(b *testing.B, callers int) {
	db := openStore(b)
	l := openLog(b, db)
	mustAppend(b, l, opened())
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := c; i < b.N; i += callers {
				if _, err := l.Append(context.Background(), []Record{denied("c", "read_file", "secret_path")}, nil); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkReplica is the provider's cost for a record, without the store.
func BenchmarkReplica(b *testing.B) {
	r := denied("0190c2f0-7f3a-7000-8000-0123456789ab", "read_file", "secret_path")
	p := NewReplay(testSession)
	first := numbered(opened())[0]
	leaf, err := first.encode()
	if err != nil {
		b.Fatal(err)
	}
	if _, err := p.Add(leaf); err != nil {
		b.Fatal(err)
	}
	r.V, r.Session = Version, testSession
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		if p.tally.totals.Records >= MaxRecords {
			p = NewReplay(testSession)
			p.Add(leaf)
		}
		r.Seq = p.tally.totals.Records
		next, err := r.encode()
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if _, err := p.Add(next); err != nil {
			b.Fatal(err)
		}
		p.Head()
	}
}

// BenchmarkCheckpoint is both signatures and the verification.
func BenchmarkCheckpoint(b *testing.B) {
	s := newSides(b, testSession, 1, 2)
	h := testHead()
	for b.Loop() {
		s.signed(b, h, true)
	}
}
