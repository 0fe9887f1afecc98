package sessionlog

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftmesh/weft/store"
)

// pair is a requester's log and the provider's replica of its first part.
func pair(t *testing.T) (host, replica *Log) {
	t.Helper()
	host, replica = openLog(t, openStore(t)), openLog(t, openStore(t))
	mustAppend(t, host, story()...)
	h, err := host.HeadAt(4)
	if err != nil {
		t.Fatal(err)
	}
	if err := replica.AppendLeaves(t.Context(), leavesOf(t, host)[:4], h, nil); err != nil {
		t.Fatal(err)
	}
	return host, replica
}

func TestReplicaFollows(t *testing.T) {
	t.Parallel()
	host, replica := pair(t)
	leaves := leavesOf(t, host)
	marks := store.NewCollection[int]("testmarks")
	also := func(tx *store.Tx) error { return marks.Put(tx, "got", 12) }
	if err := replica.AppendLeaves(t.Context(), leaves[4:], host.Head(), also); err != nil {
		t.Fatal(err)
	}
	if replica.Head() != host.Head() || !cmp.Equal(replica.Totals(), host.Totals()) || !cmp.Equal(leavesOf(t, replica), leaves) {
		t.Error("the replica differs")
	}
	if err := replica.db.View(func(tx *store.Tx) error { _, err := marks.Get(tx, "got"); return err }); err != nil {
		t.Errorf("also: %v", err)
	}
	// Sent again, whole or in part: no harm, and nothing twice.
	for _, from := range []int{0, 3, 11} {
		if err := replica.AppendLeaves(t.Context(), leaves[from:], host.Head(), nil); err != nil {
			t.Errorf("again from %d: %v", from, err)
		}
	}
	h6, _ := host.HeadAt(6)
	if err := replica.AppendLeaves(t.Context(), leaves[2:6], h6, nil); err != nil {
		t.Errorf("an old part again: %v", err)
	}
	if replica.Head() != host.Head() {
		t.Error("resending changed the replica")
	}
}

// TestReplicaAttacks is what a dishonest requester or a wire can try: forks,
// edits, reorders, omissions and re-chained histories (cases 71 and 65).
func TestReplicaAttacks(t *testing.T) {
	t.Parallel()
	host, _ := pair(t)
	leaves := leavesOf(t, host)
	head := func(n uint64) Head {
		h, err := host.HeadAt(n)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	// rechained is a history that the requester made anew: the same records but
	// one. Its heads are right for itself.
	rechained := func(change func([]Record)) ([][]byte, func(uint64) Head) {
		recs := story()
		change(recs)
		l := openLog(t, openStore(t))
		mustAppend(t, l, recs...)
		return leavesOf(t, l), func(n uint64) Head { h, _ := l.HeadAt(n); return h }
	}
	lies, lieHead := rechained(func(r []Record) { r[2].Bytes = 1 })
	after, afterHead := rechained(func(r []Record) { r[5].Call, r[8].Call = "x", "x" })
	with := func(i int, leaf []byte) [][]byte {
		out := slices.Clone(leaves[4:])
		out[i] = leaf
		return out
	}
	edit := func(i int, old, new string) []byte {
		s := strings.Replace(string(leaves[i]), old, new, 1)
		if s == string(leaves[i]) {
			t.Fatalf("%q is not in record %d", old, i)
		}
		return []byte(s)
	}
	swapped := slices.Clone(leaves[4:])
	swapped[1], swapped[2] = swapped[2], swapped[1]

	for name, c := range map[string]struct {
		leaves [][]byte
		want   Head
		err    error
	}{
		"nothing":                   {nil, head(4), ErrRecord},
		"a gap":                     {leaves[6:], head(12), ErrGap},
		"one left out":              {slices.Delete(slices.Clone(leaves[4:]), 2, 3), head(12), ErrRecord},
		"reordered":                 {swapped, head(12), ErrRecord},
		"one edited, true head":     {with(3, edit(7, `"bytes":100`, `"bytes":101`)), head(12), ErrFork},
		"one edited, no head":       {with(3, edit(7, `"bytes":100`, `"bytes":101`)), Head{Size: 12}, ErrFork},
		"head of another size":      {leaves[4:], head(11), ErrFork},
		"head from the future":      {leaves[4:], Head{Size: 13}, ErrFork},
		"rewritten past, resent":    {lies, lieHead(12), ErrFork},
		"rewritten past, only head": {leaves[4:], lieHead(12), ErrFork},
		"rewritten past, new part":  {lies[4:], lieHead(12), ErrFork},
		"old part changed":          {lies[:4], lieHead(4), ErrFork},
		"old part, wrong head":      {leaves[:4], Head{Size: 4}, ErrFork},
		"fork after our head":       {after[4:6], head(6), ErrFork},
		"not a record":              {with(0, []byte("{}")), head(12), ErrRecord},
		"not canonical":             {with(0, append(slices.Clone(leaves[4]), ' ')), head(12), ErrRecord},
		"another session":           {with(0, edit(4, testSession, "othersession")), head(12), ErrRecord},
		"another session, old part": {[][]byte{edit(0, testSession, "othersession")}, head(1), ErrFork},
		"a call runs twice":         {with(1, edit(5, `"call":"c3"`, `"call":"c1"`)), head(12), ErrRecord},
		"result without intent":     {with(3, edit(7, `"call":"c4"`, `"call":"c8"`)), head(12), ErrRecord},
		"too many at once":          {make([][]byte, maxBatch+1), head(12), ErrRecord},
		"a huge record":             {[][]byte{make([]byte, 1<<20)}, head(12), ErrRecord},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, replica := pair(t)
			before, totals := replica.Head(), replica.Totals()
			ran := false
			err := replica.AppendLeaves(t.Context(), c.leaves, c.want, func(*store.Tx) error { ran = true; return nil })
			if !errors.Is(err, c.err) {
				t.Errorf("got %v, want %v", err, c.err)
			}
			if ran || replica.Head() != before || !cmp.Equal(replica.Totals(), totals) || uint64(len(leavesOf(t, replica))) != before.Size {
				t.Error("something was stored")
			}
			// The true continuation still fits.
			if err := replica.AppendLeaves(t.Context(), leaves[4:], host.Head(), nil); err != nil {
				t.Errorf("the true records afterwards: %v", err)
			}
		})
	}
	_ = afterHead

	// A fork after our head that brings its own head is a true continuation for
	// a replica that has not seen the other; the other side's message, signed
	// over its head, is then the fraud proof.
	_, replica := pair(t)
	if err := replica.AppendLeaves(t.Context(), after[4:], afterHead(12), nil); err != nil {
		t.Fatal(err)
	}
	if err := replica.CheckHead(host.Head()); !errors.Is(err, ErrFork) {
		t.Errorf("the first head again: %v", err)
	}
}

func TestReplicaAlso(t *testing.T) {
	t.Parallel()
	host, replica := pair(t)
	refuse := errors.New("refused")
	before := replica.Head()
	if err := replica.AppendLeaves(t.Context(), leavesOf(t, host)[4:], host.Head(), func(*store.Tx) error { return refuse }); !errors.Is(err, refuse) || errors.Is(err, ErrUnavailable) {
		t.Errorf("also: %v", err)
	}
	if replica.Head() != before {
		t.Error("something was stored")
	}
	if err := replica.AppendLeaves(t.Context(), leavesOf(t, host)[4:], host.Head(), nil); err != nil {
		t.Error(err)
	}
}
