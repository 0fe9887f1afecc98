package sessionlog

import (
	"context"
	"fmt"

	"github.com/weftmesh/weft/store"
)

// AppendLeaves is the provider's side: it takes the next records as received
// and the head they must lead to, and returns when they are on disk. Leaves
// that are here already are compared and skipped, so a resent message does no
// harm. also runs in the same store transaction and may run more than once.
//
// ErrGap means that earlier records are missing: ask for them. ErrFork means
// that the records or the head contradict what is here, and ErrRecord that a
// record breaks the log's rules; in both cases the requester is at fault and
// nothing was stored.
func (l *Log) AppendLeaves(ctx context.Context, leaves [][]byte, want Head, also func(tx *store.Tx) error) error {
	if len(leaves) == 0 || len(leaves) > maxBatch {
		return fmt.Errorf("%w: %d records at once, need 1 to %d", ErrRecord, len(leaves), maxBatch)
	}
	decoded := make([]Record, len(leaves))
	for i, leaf := range leaves {
		r, err := Decode(leaf)
		if err != nil {
			return err
		}
		if i > 0 && r.Seq != decoded[0].Seq+uint64(i) {
			return fmt.Errorf("%w: record %d after %d", ErrRecord, r.Seq, decoded[i-1].Seq)
		}
		decoded[i] = r
	}
	if last := decoded[len(decoded)-1].Seq; want.Size != last+1 {
		return fmt.Errorf("%w: a head of %d records after record %d", ErrFork, want.Size, last)
	}
	if err := l.take(ctx); err != nil {
		return err
	}
	defer l.release()
	st := l.stage()
	if err := st.received(decoded, leaves, want); err != nil {
		st.undo()
		return err
	}
	refused, err := st.sync(func(tx *store.Tx) (int, error) {
		if also == nil {
			return 0, nil
		}
		return 0, also(tx)
	})
	if err != nil {
		st.undo()
		if refused < 0 {
			err = l.fail(err)
		}
		return err
	}
	st.publish()
	return nil
}

// received stages leaves of the other side and compares the head.
func (s *staged) received(recs []Record, leaves [][]byte, want Head) error {
	l := s.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return l.broken
	}
	if first := recs[0].Seq; first > s.base {
		return fmt.Errorf("%w: %d records are here, the next given is %d", ErrGap, s.base, first)
	}
	for i, r := range recs {
		if r.Seq < s.base {
			if r.Session != l.session || l.tree.levels[0][r.Seq] != leafHash(leaves[i]) {
				return fmt.Errorf("%w: record %d was another before", ErrFork, r.Seq)
			}
			continue
		}
		if err := s.add(r, leaves[i]); err != nil {
			return err
		}
		s.leaves = append(s.leaves, leaves[i])
	}
	if have := l.tree.head(want.Size); have != want {
		return fmt.Errorf("%w: at %d records", ErrFork, want.Size)
	}
	return nil
}
