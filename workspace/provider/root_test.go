package provider_test

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/mod/sumdb/tlog"
)

// rootOf is the RFC 6962 root of leaves, by another implementation than the
// one that is tested.
func rootOf(t testing.TB, leaves []jsontext.Value) [32]byte {
	t.Helper()
	var hashes []tlog.Hash
	read := tlog.HashReaderFunc(func(idx []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(idx))
		for i, n := range idx {
			out[i] = hashes[n]
		}
		return out, nil
	})
	for i, leaf := range leaves {
		more, err := tlog.StoredHashes(int64(i), leaf, read)
		if err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, more...)
	}
	root, err := tlog.TreeHash(int64(len(leaves)), read)
	if err != nil {
		t.Fatal(err)
	}
	return root
}
