package store

import (
	"bytes"
	"fmt"

	"github.com/weftmesh/weft/protocols/strict"
)

// Collection is a named set of values by key. Values are kept as JSON that
// package strict can read back, except []byte, which is kept as it is. The
// zero Collection is unusable; make one with NewCollection, as a package
// variable or a field.
type Collection[T any] struct{ name string }

// NewCollection names a collection: 1 to 64 of a-z, 0-9, '.', '_', '/' and
// '-'. Every use of a collection with another name fails.
func NewCollection[T any](name string) Collection[T] { return Collection[T]{name} }

// key checks and spells the key of one value.
func (c Collection[T]) key(key string) (string, error) {
	if !validName(c.name) {
		return "", fmt.Errorf("collection name %q is not valid", c.name)
	}
	if err := checkKey("key", key); err != nil {
		return "", err
	}
	return spacePrefix(spaceCollection, c.name) + key, nil
}

// Get reads one value. It returns ErrNotFound, wrapped with the name, when
// there is none, and ErrCorrupt when the stored bytes don't decode.
func (c Collection[T]) Get(tx *Tx, key string) (T, error) {
	var v T
	k, err := c.key(key)
	if err != nil {
		return v, err
	}
	raw, err := tx.get(k)
	if err != nil {
		return v, fmt.Errorf("%s %q: %w", c.name, key, err)
	}
	return c.decode(key, raw)
}

// Has reports whether the key has a value, without reading it.
func (c Collection[T]) Has(tx *Tx, key string) (bool, error) {
	k, err := c.key(key)
	if err != nil {
		return false, err
	}
	return tx.has(k)
}

// Put writes one value, replacing what was there. It returns ErrTooLarge for a
// value whose stored form is beyond about 1 MiB.
func (c Collection[T]) Put(tx *Tx, key string, v T) error {
	k, err := c.key(key)
	if err != nil {
		return err
	}
	raw, err := encode(v)
	if err != nil {
		return fmt.Errorf("encode %s %q: %w", c.name, key, err)
	}
	if len(raw) > maxValue {
		return fmt.Errorf("%w: %s %q has %d bytes, the limit is %d", ErrTooLarge, c.name, key, len(raw), maxValue)
	}
	return tx.put(k, write{val: raw})
}

// Delete removes one value. Removing what isn't there is no error.
func (c Collection[T]) Delete(tx *Tx, key string) error {
	k, err := c.key(key)
	if err != nil {
		return err
	}
	return tx.put(k, write{gone: true})
}

// Each calls fn for every value whose key starts with prefix, in the order of
// the keys' bytes, as they were when Each was called: fn may write. An error
// of fn ends the walk and is returned as it is.
func (c Collection[T]) Each(tx *Tx, prefix string, fn func(key string, v T) error) error {
	if !validName(c.name) {
		return fmt.Errorf("collection name %q is not valid", c.name)
	}
	head := spacePrefix(spaceCollection, c.name)
	return tx.scan(head+prefix, head+prefix, true, func(k string, raw []byte) error {
		v, err := c.decode(k[len(head):], raw)
		if err != nil {
			return err
		}
		return fn(k[len(head):], v)
	})
}

// Count counts the keys that start with prefix. A damaged store counts short.
func (c Collection[T]) Count(tx *Tx, prefix string) int {
	if !validName(c.name) {
		return 0
	}
	n := 0
	p := spacePrefix(spaceCollection, c.name) + prefix
	if err := tx.scan(p, p, false, func(string, []byte) error { n++; return nil }); err != nil {
		tx.db.log.Warn("count a collection", "collection", c.name, "err", err)
	}
	return n
}

// decode reads a stored value. raw may belong to the store, so it is copied.
func (c Collection[T]) decode(key string, raw []byte) (T, error) {
	var v T
	if p, ok := any(&v).(*[]byte); ok {
		*p = bytes.Clone(raw)
		return v, nil
	}
	if err := strict.Unmarshal(raw, maxValue, &v); err != nil {
		return v, fmt.Errorf("%w: %s %q: %w", ErrCorrupt, c.name, key, err)
	}
	return v, nil
}

// encode makes the stored form of a value, sharing no memory with it.
func encode(v any) ([]byte, error) {
	if b, ok := v.([]byte); ok {
		return bytes.Clone(b), nil
	}
	return strict.Marshal(v)
}
