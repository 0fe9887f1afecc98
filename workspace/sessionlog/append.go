package sessionlog

import (
	"context"
	"fmt"
	"slices"

	"github.com/weftmesh/weft/store"
)

// MaxAppend bounds the records of one Append, maxBatch those of one write.
const (
	MaxAppend = 256
	maxBatch  = 1024
)

// Appended is what an Append wrote: Leaves are the encoded records from First
// on, Head the log's head right after them.
type Appended struct {
	First  uint64
	Leaves [][]byte
	Head   Head
}

// request is one Append on its way to disk.
type request struct {
	recs []Record
	also func(*store.Tx, uint64) error
	done chan struct{} // closed when res and err are set

	// owned by the holder of the turn until done
	res Appended
	err error
}

// Append writes records, adjacent and in order, and returns when they are on
// disk. also, if set, runs in the same store transaction, so that what belongs
// to a record is stored with it or not at all; it gets the first record's
// number. It may run more than once, and must not call the Log.
//
// Appends that wait at the same time are written together, with one sync. ctx
// ends the wait for the turn only: once a record is being written, Append
// returns what became of it.
//
// An error of also, ErrRecord and ErrFull concern this Append alone and leave
// nothing behind. ErrUnavailable means that the log is broken for good.
func (l *Log) Append(ctx context.Context, recs []Record, also func(tx *store.Tx, first uint64) error) (Appended, error) {
	if len(recs) == 0 || len(recs) > MaxAppend {
		return Appended{}, fmt.Errorf("%w: %d records at once, need 1 to %d", ErrRecord, len(recs), MaxAppend)
	}
	r := &request{recs: recs, also: also, done: make(chan struct{})}
	l.mu.Lock()
	l.waiting = append(l.waiting, r)
	l.mu.Unlock()
	select {
	case l.turn <- struct{}{}:
		// Whoever had the turn before may have written ours. If not, the
		// oldest maxBatch go first; ours is among them or comes next.
		for !finished(r) {
			l.write(l.batch())
		}
		l.release()
	case <-r.done:
	case <-ctx.Done():
		if l.withdraw(r) {
			return Appended{}, ctx.Err()
		}
		<-r.done
	}
	return r.res, r.err
}

func finished(r *request) bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// batch takes the oldest waiting requests.
func (l *Log) batch() []*request {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, size := 0, 0
	for n < len(l.waiting) && (n == 0 || size+len(l.waiting[n].recs) <= maxBatch) {
		size += len(l.waiting[n].recs)
		n++
	}
	batch := slices.Clone(l.waiting[:n])
	l.waiting = slices.Delete(l.waiting, 0, n)
	return batch
}

// withdraw takes r back if no write has begun.
func (l *Log) withdraw(r *request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiting, r)
	if i < 0 {
		return false
	}
	l.waiting = slices.Delete(l.waiting, i, i+1)
	return true
}

// write stages a batch and syncs it. The caller has the turn. A request whose
// records or also are refused is taken out, and the others go on.
func (l *Log) write(batch []*request) {
	for len(batch) > 0 {
		st := l.stage()
		batch = slices.DeleteFunc(batch, func(r *request) bool {
			r.res, r.err = st.records(r.recs)
			if r.err != nil {
				close(r.done)
			}
			return r.err != nil
		})
		if len(batch) == 0 {
			st.undo()
			return
		}
		refused, err := st.sync(func(tx *store.Tx) (int, error) {
			for i, r := range batch {
				if r.also == nil {
					continue
				}
				if err := r.also(tx, r.res.First); err != nil {
					return i, err
				}
			}
			return 0, nil
		})
		switch {
		case err == nil:
			st.publish()
			for _, r := range batch {
				close(r.done)
			}
			return
		case refused >= 0:
			st.undo()
			batch[refused].res, batch[refused].err = Appended{}, err
			close(batch[refused].done)
			batch = slices.Delete(batch, refused, refused+1)
		default:
			st.undo()
			err = l.fail(err)
			for _, r := range batch {
				r.res, r.err = Appended{}, err
				close(r.done)
			}
			return
		}
	}
}

// fail makes the log unavailable.
func (l *Log) fail(cause error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken == nil {
		l.broken = fmt.Errorf("%w: %w", ErrUnavailable, cause)
	}
	return l.broken
}
