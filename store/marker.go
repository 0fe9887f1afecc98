package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weftmesh/weft/protocols/strict"
)

// Names of our own files beside Badger's.
const (
	markerFile = "weft-store.json"
	lockFile   = "weft.lock"
	pidFile    = "weft.pid"
	tempSuffix = ".new"
)

// markerKind is what a marker says of itself.
const markerKind = "store"

// maxMarker bounds the marker file.
const maxMarker = 1 << 10

// schemaKey holds the schema version; it changes in the transaction of each
// migration, the marker after it.
const schemaKey = string(rune(spaceMeta)) + "schema"

// marker is the content of weft-store.json. It can be read before Badger
// touches anything.
type marker struct {
	// Weft is "store".
	Weft string `json:"weft"`
	// Schema is the oldest schema that may open the folder.
	Schema int `json:"schema"`
	// Made says that the database was complete once.
	Made bool `json:"made"`
}

// readMarker says what the folder is. A folder that is empty, or in which only
// making a store was begun, gives a marker that is not Made.
func readMarker(dir string, newest int) (marker, error) {
	fresh := marker{Weft: markerKind, Schema: newest}
	f, err := os.Open(filepath.Join(dir, markerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return fresh, checkEmpty(dir)
	}
	if err != nil {
		return marker{}, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxMarker+1))
	if err != nil {
		return marker{}, err
	}
	var m marker
	if err := strict.Unmarshal(raw, maxMarker, &m); err != nil || m.Weft != markerKind || m.Schema < 1 {
		return marker{}, fmt.Errorf("%w: %s in %s says something else. Choose another folder", ErrForeign, markerFile, dir)
	}
	if m.Schema > newest {
		return marker{}, newer(dir, m.Schema, newest)
	}
	return m, nil
}

// newer is the error of a store from the future.
func newer(dir string, have, newest int) error {
	return fmt.Errorf("%w: %s has schema %d, this weft knows up to %d. Update weft", ErrNewerSchema, dir, have, newest)
}

// checkEmpty refuses a folder without a marker that has anything else in it.
func checkEmpty(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	names, err := d.Readdirnames(8) // ours are four
	if err != nil && err != io.EOF {
		return err
	}
	for _, n := range names {
		switch n {
		case lockFile, pidFile, pidFile + tempSuffix, markerFile + tempSuffix:
		default:
			return fmt.Errorf("%w: %s has files but no %s. Choose an empty folder", ErrForeign, dir, markerFile)
		}
	}
	return nil
}

// writeMarker replaces the marker.
func writeMarker(dir string, m marker) error {
	raw, err := strict.Marshal(m)
	if err != nil {
		return err
	}
	return replaceFile(dir, markerFile, append(raw, '\n'))
}

// replaceFile writes a small file so that a crash leaves the old or the new.
func replaceFile(dir, name string, data []byte) error {
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path+tempSuffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(path+tempSuffix, path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// readSchema returns the schema version, 0 if none was ever written.
func readSchema(tx *Tx) (int, error) {
	raw, err := tx.get(schemaKey)
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the schema version: %w", err)
	}
	v, n := binary.Uvarint(raw)
	if n != len(raw) || v == 0 || v > 1<<30 {
		return 0, fmt.Errorf("%w: schema record", ErrCorrupt)
	}
	return int(v), nil
}

func writeSchema(tx *Tx, v int) error {
	return tx.put(schemaKey, write{val: binary.AppendUvarint(nil, uint64(v))})
}
