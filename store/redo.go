package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	badger "github.com/dgraph-io/badger/v4"
)

// redoKey holds the one update that is being applied in parts, if any.
const redoKey = string(rune(spaceMeta)) + "redo"

// maxRedo is the largest redo record: the largest update and a few bytes for
// each of its keys. It must fit one value log file.
const maxRedo = maxTxBytes + 24*maxTxWrites

// writeParts writes an overlay that is too big for one Badger transaction.
// The redo record makes it durable as a whole; from then on it will be
// applied, now or by the next Open.
func (db *DB) writeParts(o overlay) error {
	rec := encodeRedo(o)
	if len(rec) > maxRedo {
		return fmt.Errorf("%w: an update of %d bytes", ErrTooLarge, len(rec))
	}
	if err := db.write(overlay{redoKey: {val: rec}}); err != nil {
		return fmt.Errorf("redo record: %w", err)
	}
	return db.applyParts(o)
}

// applyParts applies what the redo record holds, and removes the record with
// the last part. Every part sets absolute values, so doing it again is right.
func (db *DB) applyParts(o overlay) error {
	db.gate.Lock()
	defer db.gate.Unlock()
	part := overlay{}
	var size int64
	for k, w := range o {
		_, n := measure(overlay{k: w})
		// Half of the limit leaves room for the record's removal.
		if len(part) > 0 && (int64(len(part)) >= db.maxCount/2 || size+n > db.maxSize/2) {
			if err := db.write(part); err != nil {
				return err
			}
			part, size = overlay{}, 0
		}
		part[k] = w
		size += n
	}
	part[redoKey] = write{gone: true}
	return db.write(part)
}

// redo finishes an update that a crash left half applied.
func (db *DB) redo() error {
	var rec []byte
	err := db.bdg.View(func(txn *badger.Txn) error {
		item, err := txn.Get([]byte(redoKey))
		if err != nil {
			return err
		}
		rec, err = valueOf(item)
		return err
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: redo record: %w", ErrCorrupt, err)
	}
	o, err := decodeRedo(rec)
	if err != nil {
		return err
	}
	return db.applyParts(o)
}

// encodeRedo writes, for each key: flag byte, expiry, key and value, numbers
// as uvarints.
func encodeRedo(o overlay) []byte {
	bytes, _ := measure(o)
	b := make([]byte, 0, bytes+int64(24*len(o)))
	for k, w := range o {
		flag := byte(0)
		if w.gone {
			flag = 1
		}
		b = append(b, flag)
		b = binary.AppendUvarint(b, w.expires)
		b = binary.AppendUvarint(b, uint64(len(k)))
		b = append(b, k...)
		b = binary.AppendUvarint(b, uint64(len(w.val)))
		b = append(b, w.val...)
	}
	return b
}

// decodeRedo reads what encodeRedo wrote, and nothing else.
func decodeRedo(b []byte) (overlay, error) {
	bad := fmt.Errorf("%w: redo record of %d bytes", ErrCorrupt, len(b))
	if len(b) > maxRedo {
		return nil, bad
	}
	num := func() (uint64, bool) {
		n, used := binary.Uvarint(b)
		if used <= 0 {
			return 0, false
		}
		b = b[used:]
		return n, true
	}
	field := func() ([]byte, bool) {
		n, ok := num()
		if !ok || n > uint64(len(b)) {
			return nil, false
		}
		f := b[:n:n]
		b = b[n:]
		return f, true
	}
	o := overlay{}
	for len(b) > 0 {
		flag := b[0]
		b = b[1:]
		expires, ok1 := num()
		key, ok2 := field()
		val, ok3 := field()
		if !ok1 || !ok2 || !ok3 || flag > 1 || len(key) == 0 || flag == 1 && len(val) > 0 {
			return nil, bad
		}
		o[string(key)] = write{val: val, expires: expires, gone: flag == 1}
	}
	return o, nil
}
