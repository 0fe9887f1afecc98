package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// Log is a named set of append-only streams of records. Records of a stream
// are numbered from 0 without a gap, and neither change nor go away.
type Log struct{ name string }

// maxRead bounds the bytes one Read returns.
const maxRead = 8 << 20

// NewLog names a log, by the same grammar as NewCollection.
func NewLog(name string) Log { return Log{name} }

// lenKey checks the names and spells the key of the stream's length.
func (l Log) lenKey(stream string) (string, error) {
	if !validName(l.name) {
		return "", fmt.Errorf("log name %q is not valid", l.name)
	}
	if err := checkStream(stream); err != nil {
		return "", err
	}
	return spacePrefix(spaceLen, l.name) + stream, nil
}

// Append adds records at the end of a stream and returns the number that the
// next record will get, which is the stream's new length. A record is at most
// about 1 MiB, else ErrTooLarge.
func (l Log) Append(tx *Tx, stream string, rec ...[]byte) (next uint64, err error) {
	k, err := l.lenKey(stream)
	if err != nil {
		return 0, err
	}
	if next, err = l.Len(tx, stream); err != nil {
		return 0, err
	}
	for _, r := range rec {
		if len(r) > maxValue {
			return 0, fmt.Errorf("%w: record of %d bytes in %s, the limit is %d", ErrTooLarge, len(r), l.name, maxValue)
		}
		if err := tx.put(recordKey(l.name, stream, next), write{val: bytes.Clone(r)}); err != nil {
			return 0, err
		}
		next++
	}
	if len(rec) == 0 {
		return next, nil
	}
	return next, tx.put(k, write{val: binary.BigEndian.AppendUint64(nil, next)})
}

// Read returns at most limit records from number from on. It returns fewer
// when the stream ends, or when they would pass 8 MiB together, but at least
// one if there is one; so a reader asks again until it gets none.
func (l Log) Read(tx *Tx, stream string, from uint64, limit int) ([][]byte, error) {
	n, err := l.Len(tx, stream)
	if err != nil || from >= n || limit <= 0 {
		return nil, err
	}
	var out [][]byte
	size, want := 0, from
	start := recordKey(l.name, stream, from)
	err = tx.scan(start[:len(start)-8], start, true, func(k string, raw []byte) error {
		if len(out) == limit || len(out) > 0 && size+len(raw) > maxRead {
			return errStop
		}
		if _, _, seq, ok := parseRecordKey(k); !ok || seq != want {
			return fmt.Errorf("%w: %s %q: record %d is missing", ErrCorrupt, l.name, stream, want)
		}
		out = append(out, bytes.Clone(raw))
		size += len(raw)
		want++
		return nil
	})
	switch {
	case errors.Is(err, errStop):
		return out, nil
	case err != nil:
		return nil, err
	case want != n:
		return nil, fmt.Errorf("%w: %s %q ends at record %d, %d expected", ErrCorrupt, l.name, stream, want, n)
	}
	return out, nil
}

// Len returns how many records a stream has; 0 for a stream never written.
func (l Log) Len(tx *Tx, stream string) (uint64, error) {
	k, err := l.lenKey(stream)
	if err != nil {
		return 0, err
	}
	raw, err := tx.get(k)
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("length of %s %q: %w", l.name, stream, err)
	}
	if len(raw) != 8 {
		return 0, fmt.Errorf("%w: length of %s %q", ErrCorrupt, l.name, stream)
	}
	return binary.BigEndian.Uint64(raw), nil
}
