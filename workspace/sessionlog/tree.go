package sessionlog

import (
	"crypto/sha256"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// Head is the state of a log: how many records, and the RFC 6962 root of all
// of them. Two logs with equal heads hold the same records in the same order.
type Head struct {
	Size uint64
	Root [32]byte
}

// tree keeps every complete subtree's hash, so any head and any proof is a few
// look-ups: 64 bytes a record. levels[k][i] is the root of the i-th subtree of
// 2^k leaves. It is append-only but for truncate.
type tree struct{ levels [][]tlog.Hash }

func (t *tree) size() uint64 {
	if len(t.levels) == 0 {
		return 0
	}
	return uint64(len(t.levels[0]))
}

// push adds a leaf hash and the subtrees that it completes.
func (t *tree) push(h tlog.Hash) {
	for k := 0; ; k++ {
		if k == len(t.levels) {
			t.levels = append(t.levels, nil)
		}
		row := append(t.levels[k], h)
		t.levels[k] = row
		if len(row)%2 == 1 {
			return
		}
		h = tlog.NodeHash(row[len(row)-2], row[len(row)-1])
	}
}

// truncate drops all leaves from n on.
func (t *tree) truncate(n uint64) {
	for k := range t.levels {
		t.levels[k] = t.levels[k][:n>>k]
	}
}

// head is the head of the first n leaves; n is at most the size.
func (t *tree) head(n uint64) Head {
	if n == 0 {
		return Head{Root: sha256.Sum256(nil)}
	}
	// n's bits, from the lowest, are the complete subtrees from the right.
	var root tlog.Hash
	have := false
	for k := range t.levels {
		if n>>k&1 == 0 {
			continue
		}
		left := t.levels[k][n>>k-1]
		if have {
			root = tlog.NodeHash(left, root)
		} else {
			root, have = left, true
		}
	}
	return Head{Size: n, Root: root}
}

// ReadHashes makes tree a tlog.HashReader.
func (t *tree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		level, n := tlog.SplitStoredHashIndex(x)
		if level >= len(t.levels) || n >= int64(len(t.levels[level])) {
			return nil, fmt.Errorf("no hash %d at level %d", n, level)
		}
		out[i] = t.levels[level][n]
	}
	return out, nil
}
