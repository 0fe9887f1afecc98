package store

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	badger "github.com/dgraph-io/badger/v4"
)

// Limits of one update: the bytes of its keys and values, and how many keys
// it may touch. The redo record of such an update must fit one value log file.
const (
	maxTxBytes  = 6 << 20
	maxTxWrites = 64 << 10
)

// wholeValue is the first byte of every stored value. Badger answers a value
// that it can't read (lost or damaged value log) with an empty one and no
// error (v4.9.6 iterator.go, yieldItemValue), so none may be empty.
const wholeValue = 1

// errStop ends a scan early.
var errStop = errors.New("stop")

// write is one pending change of one key.
type write struct {
	val     []byte
	expires uint64 // Unix seconds; 0 is never
	gone    bool
}

// overlay holds the pending changes of a function or of a batch.
type overlay map[string]write

// Tx is the view of the store inside one Update or View. It must not be kept
// after the function returns, nor used by two goroutines at once.
type Tx struct {
	db   *DB
	base *badger.Txn
	// under holds what earlier functions of the same batch wrote.
	under overlay
	// own holds what this function wrote; nil in a View.
	own   overlay
	bytes int
	done  bool
}

// pending looks a key up in the overlays.
func (tx *Tx) pending(key string) (write, bool) {
	if w, ok := tx.own[key]; ok {
		return w, true
	}
	w, ok := tx.under[key]
	return w, ok
}

// get returns the value of a key. The bytes must not be changed.
func (tx *Tx) get(key string) ([]byte, error) {
	if tx.done {
		return nil, ErrTxDone
	}
	if w, ok := tx.pending(key); ok {
		if w.gone {
			return nil, ErrNotFound
		}
		return w.val, nil
	}
	item, err := tx.base.Get([]byte(key))
	if err == nil {
		return valueOf(item)
	}
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, ErrNotFound
	}
	return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
}

// valueOf copies what Badger has for a key.
func valueOf(item *badger.Item) ([]byte, error) {
	val, err := item.ValueCopy(nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if len(val) == 0 || val[0] != wholeValue {
		return nil, fmt.Errorf("%w: the value of key %q can't be read", ErrCorrupt, item.Key())
	}
	return val[1:], nil
}

// has reports whether a key has a value.
func (tx *Tx) has(key string) (bool, error) {
	if tx.done {
		return false, ErrTxDone
	}
	if w, ok := tx.pending(key); ok {
		return !w.gone, nil
	}
	_, err := tx.base.Get([]byte(key))
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, badger.ErrKeyNotFound):
		return false, nil
	}
	return false, fmt.Errorf("%w: %w", ErrCorrupt, err)
}

// put records a change. It owns w.val.
func (tx *Tx) put(key string, w write) error {
	switch old, ok := tx.own[key]; {
	case tx.done:
		return ErrTxDone
	case tx.own == nil:
		return ErrReadOnly
	case !ok && len(tx.own) >= maxTxWrites:
		return fmt.Errorf("%w: one update changes more than %d keys", ErrTooLarge, maxTxWrites)
	default:
		n := tx.bytes + len(w.val) - len(old.val)
		if !ok {
			n += len(key)
		}
		if n > maxTxBytes {
			return fmt.Errorf("%w: one update of more than %d bytes", ErrTooLarge, maxTxBytes)
		}
		tx.bytes = n
		tx.own[key] = w
		return nil
	}
}

// scan calls fn for each key with the prefix, from start on, in order, as they
// are now: fn may write. val is nil unless values is set, and belongs to the
// store. fn's error ends the scan and is returned.
func (tx *Tx) scan(prefix, start string, values bool, fn func(key string, val []byte) error) error {
	if tx.done {
		return ErrTxDone
	}
	var keys []string
	seen := make(map[string]write)
	for _, o := range []overlay{tx.under, tx.own} {
		for k, w := range o {
			if strings.HasPrefix(k, prefix) && k >= start {
				if _, ok := seen[k]; !ok {
					keys = append(keys, k)
				}
				seen[k] = w
			}
		}
	}
	slices.Sort(keys)
	// emit hands out the overlay's keys that come before the limit.
	emit := func(limit []byte, all bool) error {
		for len(keys) > 0 && (all || keys[0] < string(limit)) {
			k := keys[0]
			keys = keys[1:]
			if w := seen[k]; !w.gone {
				if err := fn(k, w.val); err != nil {
					return err
				}
			}
		}
		return nil
	}
	opt := badger.DefaultIteratorOptions
	opt.PrefetchValues = false // its goroutine per value costs more than it saves
	opt.Prefix = []byte(prefix)
	it := tx.base.NewIterator(opt)
	defer it.Close()
	for it.Seek([]byte(start)); it.Valid(); it.Next() {
		item := it.Item()
		k := item.Key()
		if err := emit(k, false); err != nil {
			return err
		}
		if _, ok := seen[string(k)]; ok {
			continue // emitted, or about to be, from the overlay
		}
		if !values {
			if err := fn(string(k), nil); err != nil {
				return err
			}
			continue
		}
		// fn runs outside item.Value: it may take long, and Badger holds a
		// lock on the value log file meanwhile.
		val, err := valueOf(item)
		if err != nil {
			return err
		}
		if err := fn(string(bytes.Clone(k)), val); err != nil {
			return err
		}
	}
	return emit(nil, true)
}
