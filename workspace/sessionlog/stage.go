package sessionlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weftmesh/weft/store"
	"github.com/weftmesh/weft/workspace"
)

// staged is what one write adds to the log. The goroutine that has the turn
// owns it.
type staged struct {
	l      *Log
	base   uint64
	leaves [][]byte
	undos  []func()
}

func (l *Log) stage() *staged { return &staged{l: l, base: l.Head().Size} }

// records encodes records at the end of the log.
func (s *staged) records(recs []Record) (Appended, error) {
	l := s.l
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.tree.size()
	mark := len(s.undos)
	for _, r := range recs {
		leaf, err := s.record(r)
		if err != nil {
			s.revert(mark, first)
			return Appended{}, err
		}
		s.leaves = append(s.leaves, leaf)
	}
	return Appended{First: first, Leaves: slices.Clone(s.leaves[first-s.base:]), Head: l.tree.head(l.tree.size())}, nil
}

func (s *staged) record(r Record) ([]byte, error) {
	l := s.l
	if l.broken != nil {
		return nil, l.broken
	}
	size := l.tree.size()
	if size >= MaxRecords || (r.Type == Call && size >= MaxRecords-reserve) {
		return nil, fmt.Errorf("%w: %d records; close the session and share again", ErrFull, size)
	}
	r.V, r.Seq, r.Session, r.Note = Version, size, l.session, Words(r.Note)
	if r.Time == 0 {
		r.Time = time.Now().UnixMilli()
	}
	if r.Code == string(workspace.UnknownTool) {
		r.Tool = UnknownTool
	}
	if r.Fill != nil {
		r.Fill(&r)
	}
	leaf, err := r.encode()
	if err != nil {
		return nil, err
	}
	return leaf, s.add(r, leaf)
}

// add puts a checked record into the tally and the tree.
func (s *staged) add(r Record, leaf []byte) error {
	undo, err := s.l.tally.add(r)
	if err != nil {
		return err
	}
	s.undos = append(s.undos, undo)
	s.l.tree.push(leafHash(leaf))
	return nil
}

// revert takes back what was staged since a mark. l.mu is held.
func (s *staged) revert(mark int, size uint64) {
	for i := len(s.undos) - 1; i >= mark; i-- {
		s.undos[i]()
	}
	s.undos = s.undos[:mark]
	s.leaves = s.leaves[:size-s.base]
	s.l.tree.truncate(size)
}

// undo takes back everything.
func (s *staged) undo() {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	s.revert(0, s.base)
}

// publish makes what is now on disk visible.
func (s *staged) publish() {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	s.l.head = s.l.tree.head(s.base + uint64(len(s.leaves)))
	s.l.remember(s.base, s.leaves)
}

// errAlso marks the error of an also, which is not the store's.
var errAlso = errors.New("refused in the transaction")

// sync writes the leaves and runs the alsos in one durable transaction. If an
// also refused, its number and error come back, and nothing was written;
// otherwise the number is -1.
func (s *staged) sync(alsos func(*store.Tx) (int, error)) (refused int, err error) {
	// The callers' contexts don't count here: to stop halfway would leave it
	// unknown whether a record is on disk.
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	type outcome struct {
		which int
		err   error
	}
	also := make(chan outcome, 1)
	err = s.l.db.Update(ctx, func(tx *store.Tx) error {
		have, err := records.Len(tx, s.l.session)
		if err != nil {
			return err
		}
		if have != s.base {
			return fmt.Errorf("the store has %d records, expected %d; is the session open twice?", have, s.base)
		}
		if len(s.leaves) > 0 {
			if _, err := records.Append(tx, s.l.session, s.leaves...); err != nil {
				return err
			}
		}
		if i, err := alsos(tx); err != nil {
			select {
			case <-also: // of an earlier run of this function
			default:
			}
			also <- outcome{i, err}
			return fmt.Errorf("%w: %w", errAlso, err)
		}
		return nil
	})
	if errors.Is(err, errAlso) {
		o := <-also
		return o.which, o.err
	}
	return -1, err
}
