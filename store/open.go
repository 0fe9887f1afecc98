package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	badger "github.com/dgraph-io/badger/v4"
	badgeropt "github.com/dgraph-io/badger/v4/options"
)

// Sizes of Badger's parts; doc.go says why they are small.
const (
	memTable       = 4 << 20
	valueThreshold = 1 << 10
	valueLogFile   = 16 << 20
	// closeReserve is what Close or Open may write by itself: a table for each
	// of two memtables.
	closeReserve = 2 * memTable
	// writeReserve stays free after a write: as much again for tables being
	// written now, and their indexes, so that a store that filled its disk can
	// still be closed and opened.
	writeReserve = 5 * memTable
)

// openWait bounds the work of Open that goes through the committer.
const openWait = time.Minute

// badgerInUse is how Badger says that its own lock is held. We have ours, so a
// program other than weft has it, or a process that this one is forking: that
// one still has the files of a store that was just closed, for a moment.
const (
	badgerInUse = "Cannot acquire directory lock"
	lockWait    = time.Second
)

// Open opens the store in a folder, and makes it if the folder is empty or
// isn't there. It recovers what a crash left. Its errors say what to do, and
// wrap ErrInUse (naming the process), ErrNewerSchema, ErrForeign, ErrKey,
// ErrFull, ErrCorrupt, or what the file system said.
func Open(o Options) (*DB, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	switch len(o.Key) {
	case 0, 16, 24, 32:
	default:
		return nil, fmt.Errorf("open store: %w: %d bytes, 16, 24 or 32 are needed", ErrKey, len(o.Key))
	}
	dir, err := filepath.Abs(o.Dir)
	if o.Dir == "" || err != nil {
		return nil, fmt.Errorf("open store: Options.Dir %q is no folder", o.Dir)
	}
	o.Dir = dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	// Before the lock: in a foreign folder not even a lock file is made.
	if _, err := readMarker(dir, o.schema()); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	lock, err := acquire(dir)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	db, err := openLocked(o, lock)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open store: %w", err), lock.release())
	}
	return db, nil
}

// schema is the newest schema that the caller knows.
func (o Options) schema() int { return 1 + len(o.Migrations) }

// openLocked opens the store while the folder is ours.
func openLocked(o Options, lock *fileLock) (*DB, error) {
	m, err := readMarker(o.Dir, o.schema())
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(o.Dir, 0o700); err != nil {
		return nil, err
	}
	if free, ok := diskFree(o.Dir); ok && free < closeReserve {
		return nil, full(o.Dir, free, closeReserve)
	}
	if !m.Made {
		if err := writeMarker(o.Dir, m); err != nil {
			return nil, err
		}
	} else if _, err := os.Stat(filepath.Join(o.Dir, badger.ManifestFilename)); err != nil {
		// Badger would take the folder for new, and delete every table.
		return nil, fmt.Errorf("%w: %s has no %s. Restore the folder from a backup", ErrCorrupt, o.Dir, badger.ManifestFilename)
	}
	if err := checkLogs(o.Dir, len(o.Key) > 0); err != nil {
		return nil, err
	}
	noise := &badgerLog{log: o.Log, dir: o.Dir}
	bdg, err := openBadger(o, noise)
	if err != nil {
		return nil, err
	}
	db := &DB{dir: o.Dir, log: o.Log, clock: o.Now, bdg: bdg, lock: lock, noise: noise,
		maxCount: bdg.MaxBatchCount(), maxSize: bdg.MaxBatchSize()}
	db.queue.open()
	db.keep.open()
	if err := db.redo(); err != nil {
		return nil, errors.Join(err, closeBadger(bdg))
	}
	db.loops.Go(db.commitLoop)
	db.loops.Go(db.keepLoop)
	if err := db.upgrade(o, m); err != nil {
		db.queue.close()
		db.keep.stop()
		db.loops.Wait()
		return nil, errors.Join(err, closeBadger(bdg))
	}
	db.keep.wake()
	return db, nil
}

// upgrade brings the schema up to date and completes the marker.
func (db *DB) upgrade(o Options, m marker) error {
	ctx, cancel := context.WithTimeout(context.Background(), openWait)
	defer cancel()
	var have int
	err := db.View(func(tx *Tx) (err error) {
		have, err = readSchema(tx)
		return err
	})
	if err != nil {
		return err
	}
	switch {
	case have > o.schema():
		return newer(db.dir, have, o.schema())
	case have == 0 && m.Made:
		return fmt.Errorf("%w: %s lost its schema record. Restore the folder from a backup", ErrCorrupt, db.dir)
	case have == 0:
		err := db.Update(ctx, func(tx *Tx) error { return writeSchema(tx, o.schema()) })
		if err != nil {
			return fmt.Errorf("make the store: %w", err)
		}
	}
	for v := have; v > 0 && v < o.schema(); v++ {
		step := o.Migrations[v-1]
		err := db.Update(ctx, func(tx *Tx) error {
			if err := step.Run(tx); err != nil {
				return err
			}
			return writeSchema(tx, v+1)
		})
		if err != nil {
			return fmt.Errorf("migrate to schema %d (%s): %w. The store is as it was; use the weft that wrote it", v+1, step.Name, err)
		}
		db.log.Info("store migrated", "schema", v+1, "what", step.Name)
	}
	if want := (marker{Weft: markerKind, Schema: o.schema(), Made: true}); m != want {
		return writeMarker(db.dir, want)
	}
	return nil
}

// badgerOptions are the measured choices of doc.go.
func badgerOptions(o Options, noise *badgerLog) badger.Options {
	b := badger.DefaultOptions(o.Dir).
		WithLogger(noise).
		WithSyncWrites(true).
		WithDetectConflicts(false). // one writer
		WithMetricsEnabled(false).
		WithMemTableSize(memTable).WithNumMemtables(1).
		WithBaseTableSize(1 << 20).WithBaseLevelSize(4 << 20).
		WithNumCompactors(0). // the keeper's work
		WithNumLevelZeroTables(1).WithNumLevelZeroTablesStall(1 << 20).
		WithValueThreshold(valueThreshold).WithValueLogFileSize(valueLogFile).
		WithVerifyValueChecksum(true).
		// At Open: later, a damaged block makes Badger skip its keys.
		WithChecksumVerificationMode(badgeropt.OnTableRead).
		WithCompression(badgeropt.None).
		WithBlockCacheSize(0).WithIndexCacheSize(0).
		WithNumGoroutines(1)
	if len(o.Key) > 0 {
		// Badger requires caches for what it decrypts.
		b = b.WithEncryptionKey(o.Key).WithBlockCacheSize(1 << 20).WithIndexCacheSize(1 << 20)
	}
	return b
}

// openBadger opens Badger, once more if it fails: a kill between the creation
// and the sizing of a log file makes one Open fail, and that Open heals it.
func openBadger(o Options, noise *badgerLog) (*badger.DB, error) {
	var bdg *badger.DB
	var err error
	for try, waited := 0, time.Duration(0); try < 2; {
		if bdg, err = tryBadger(badgerOptions(o, noise)); err == nil {
			return bdg, nil
		}
		if errors.Is(err, badger.ErrEncryptionKeyMismatch) {
			return nil, fmt.Errorf("%w for %s. Give the passphrase or key that it was made with", ErrKey, o.Dir)
		}
		if strings.Contains(err.Error(), badgerInUse) && waited < lockWait {
			time.Sleep(lockWait / 100)
			waited += lockWait / 100
			continue
		}
		try++
	}
	switch text := err.Error(); {
	case strings.Contains(text, badgerInUse):
		return nil, inUse(o.Dir)
	case permission(err):
		return nil, err
	case strings.Contains(text, "unsupported version"):
		return nil, fmt.Errorf("%w: %s: %w. Update weft", ErrNewerSchema, o.Dir, err)
	}
	return nil, fmt.Errorf("%w: %s: %w. Restore the folder from a backup, or move it away to start anew", ErrCorrupt, o.Dir, err)
}

// tryBadger opens Badger; damaged files make it panic here and there.
func tryBadger(o badger.Options) (bdg *badger.DB, err error) {
	defer func() {
		if p := recover(); p != nil {
			bdg, err = nil, fmt.Errorf("open badger: %v", p)
		}
	}()
	bdg, err = badger.Open(o)
	if err != nil {
		return nil, fmt.Errorf("open badger: %w", err)
	}
	return bdg, nil
}

// closeBadger closes Badger; after a failed write it may panic.
func closeBadger(bdg *badger.DB) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("close badger: %v", p)
		}
	}()
	return bdg.Close()
}
