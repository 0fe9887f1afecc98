package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Guard is a named set of ids that were used once. Record the id in the same
// Update as the effect it protects: then a crash keeps both or neither.
type Guard struct{ name string }

// guardGrace is how much longer than asked an entry stays on the disk, so that
// a clock that jumped ahead and was set back doesn't open a window in which
// the entry is gone and the document valid again.
const guardGrace = 24 * time.Hour

// NewGuard names a guard, by the same grammar as NewCollection.
func NewGuard(name string) Guard { return Guard{name} }

// Consume records an id until a time, which is when the document it came from
// can no longer be valid. It returns ErrReplay if the id is recorded and its
// time has not come, and another error if until has passed already, since
// such an entry would protect nothing. Entries go away after until.
func (g Guard) Consume(tx *Tx, id string, until time.Time) error {
	if !validName(g.name) {
		return fmt.Errorf("guard name %q is not valid", g.name)
	}
	if err := checkKey("id", id); err != nil {
		return err
	}
	now := tx.db.now()
	if !until.After(now) {
		return fmt.Errorf("guard %s: the time to keep %q until has passed", g.name, id)
	}
	k := spacePrefix(spaceGuard, g.name) + id
	raw, err := tx.get(k)
	switch {
	case errors.Is(err, ErrNotFound):
	case err != nil:
		return fmt.Errorf("guard %s: %w", g.name, err)
	case len(raw) != 8:
		return fmt.Errorf("%w: guard %s %q", ErrCorrupt, g.name, id)
	case now.UnixMilli() < int64(binary.BigEndian.Uint64(raw)):
		return fmt.Errorf("%w: %q", ErrReplay, id)
	}
	// Rounded up: an entry must not end a fraction before its document does.
	ms := until.Add(time.Millisecond - 1).UnixMilli()
	val := binary.BigEndian.AppendUint64(nil, uint64(ms))
	// Badger drops by the wall clock, Options.Now may be another: carry over
	// the time that is left.
	gone := time.Now().Add(until.Sub(now) + guardGrace)
	return tx.put(k, write{val: val, expires: uint64(gone.Unix())})
}
