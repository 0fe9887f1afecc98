package sessionlog

import (
	"fmt"
	"testing"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/tlog"
)

// TestTreeAgainstOthers compares every root and inclusion proof with
// transparency-dev's compact range and x/mod's tlog.
func TestTreeAgainstOthers(t *testing.T) {
	t.Parallel()
	const n = 200
	var tr tree
	if got, want := tr.head(0).Root, rfc6962.DefaultHasher.EmptyRoot(); string(got[:]) != string(want) {
		t.Fatalf("empty root %x, want %x", got, want)
	}
	rf := compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}
	rng := rf.NewEmptyRange(0)
	for i := range n {
		leaf := fmt.Appendf(nil, "leaf %d", i)
		tr.push(leafHash(leaf))
		if err := rng.Append(rfc6962.DefaultHasher.HashLeaf(leaf), nil); err != nil {
			t.Fatal(err)
		}
		want, err := rng.GetRootHash(nil)
		if err != nil {
			t.Fatal(err)
		}
		got := tr.head(tr.size())
		if string(got.Root[:]) != string(want) || got.Size != uint64(i+1) {
			t.Fatalf("root of %d differs from the compact range", i+1)
		}
	}
	for size := int64(1); size <= n; size++ {
		h := tr.head(uint64(size))
		if th, err := tlog.TreeHash(size, &tr); err != nil || th != tlog.Hash(h.Root) {
			t.Fatalf("root of %d differs from tlog's (%v)", size, err)
		}
		for _, i := range []int64{0, size / 2, size - 1} {
			path, err := tlog.ProveRecord(size, i, &tr)
			if err != nil {
				t.Fatal(err)
			}
			var raw [][]byte
			for _, p := range path {
				raw = append(raw, p[:])
			}
			leaf := rfc6962.DefaultHasher.HashLeaf(fmt.Appendf(nil, "leaf %d", i))
			if err := proof.VerifyInclusion(rfc6962.DefaultHasher, uint64(i), uint64(size), leaf, raw, h.Root[:]); err != nil {
				t.Fatalf("inclusion of %d in %d: %v", i, size, err)
			}
		}
	}
}

func TestTreeTruncate(t *testing.T) {
	t.Parallel()
	var tr tree
	var heads []Head
	for i := range 70 {
		heads = append(heads, tr.head(tr.size()))
		tr.push(leafHash(fmt.Appendf(nil, "%d", i)))
	}
	for n := uint64(69); n > 0; n-- {
		tr.truncate(n)
		if tr.head(n) != heads[n] {
			t.Fatalf("after truncate to %d the root differs", n)
		}
		tr.push(leafHash([]byte("other")))
		tr.truncate(n)
		if tr.head(tr.size()) != heads[n] {
			t.Fatalf("push and truncate at %d left something", n)
		}
	}
}
