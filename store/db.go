package store

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	badger "github.com/dgraph-io/badger/v4"
)

// Options say how to open a store.
type Options struct {
	// Dir is the folder of the store alone. Required. It is made, 0700, if it
	// isn't there.
	Dir string
	// Log gets what a person should know. Default slog.Default().
	Log *slog.Logger
	// Now is the clock of the replay guards. Default time.Now.
	Now func() time.Time
	// Key encrypts the store at rest (AES-CTR by Badger): 16, 24 or 32 bytes,
	// the same at every Open. Default none.
	Key []byte
	// Migrations bring older stores up to date, oldest first: Migrations[i]
	// takes schema i+1 to i+2. A new store starts at the newest schema.
	Migrations []Migration
}

// Migration changes what is stored from one schema version to the next. It
// runs once, in one Update together with the new version number.
type Migration struct {
	// Name says what changes, for errors and the log.
	Name string
	// Run makes the change.
	Run func(*Tx) error
}

// DB is an open store. All its methods may be called by any goroutine.
type DB struct {
	dir   string
	log   *slog.Logger
	clock func() time.Time
	bdg   *badger.DB
	lock  *fileLock
	noise *badgerLog

	fault atomic.Pointer[func(op string) error]
	fail  atomic.Pointer[error] // the first failed write; set once

	// gate is held to write while a redo record is applied in parts, and to
	// read while a View takes its snapshot.
	gate sync.RWMutex

	// writing is held by whoever writes: a commit, or the rewrite of one value
	// log file, which in Badger races with commits (v4.9.6 db.go, MaxVersion).
	writing sync.Mutex

	queue queue
	loops sync.WaitGroup // the committer, then the keeper

	// owned by the committer
	dirTime  time.Time // of the folder when it was last synced
	maxCount int64     // of entries in one Badger transaction
	maxSize  int64     // of one Badger transaction, as Badger counts

	keep keeper

	mu     sync.Mutex // guards below
	closed bool
	views  sync.WaitGroup // Add only while not closed

	closing  sync.Once
	closeErr error
}

// Update runs fn and makes its writes durable: they are synced when it returns
// nil. fn runs on the committer's goroutine, one at a time with every other,
// and sees all that ran before it; many waiting functions share one sync. fn
// must not call Update (it would wait for itself), and should not do slow work.
//
// Any error means that nothing of fn was kept, except ErrBroken, after which
// that is unknown until the store is opened again. fn's own error comes back
// as it is. Others are ErrFull, ErrDisk, ErrTooLarge and ErrClosed. ctx ends
// the wait in the queue, with its own error; once fn runs, Update waits for
// the disk so that the answer is never a guess.
func (db *DB) Update(ctx context.Context, fn func(*Tx) error) error {
	r := &request{fn: fn, done: make(chan error, 1)}
	if err := db.queue.add(ctx, r); err != nil {
		return err
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		if r.claim() {
			return fmt.Errorf("wait for the store: %w", ctx.Err())
		}
		return <-r.done
	}
}

// View runs fn over a snapshot of what is durable. It may run beside any
// other View or Update, and may be kept open, though that keeps Badger from
// dropping old versions; Close waits for it.
func (db *DB) View(fn func(*Tx) error) error {
	if err := db.broken(); err != nil {
		return err
	}
	db.mu.Lock()
	if db.closed {
		db.mu.Unlock()
		return ErrClosed
	}
	db.views.Add(1)
	db.mu.Unlock()
	defer db.views.Done()

	db.gate.RLock()
	tx := &Tx{db: db, base: db.bdg.NewTransaction(false)}
	db.gate.RUnlock()
	defer func() {
		tx.done = true
		tx.base.Discard()
	}()
	return fn(tx)
}

// Size returns the bytes that the store takes on the disk. It walks the folder.
func (db *DB) Size() int64 { return diskUse(db.dir) }

// SetFault makes f run before every commit; its error is taken as the disk's
// (ENOSPC becomes ErrFull, others ErrDisk), and nothing is written. op is
// "commit". It serves tests of what a bad disk does; nil ends it.
func (db *DB) SetFault(f func(op string) error) {
	if f == nil {
		db.fault.Store(nil)
		return
	}
	db.fault.Store(&f)
}

// Close stops new work, finishes what waits, and closes the files. It may be
// called again and gives the same answer.
func (db *DB) Close() error {
	db.closing.Do(func() {
		db.queue.close()
		db.keep.stop()
		db.loops.Wait()
		db.mu.Lock()
		db.closed = true
		db.mu.Unlock()
		db.views.Wait()
		db.closeErr = db.shut()
	})
	return db.closeErr
}

// shut closes Badger, unless that would have to write where there is no room.
func (db *DB) shut() error {
	if free, ok := diskFree(db.dir); ok && free < closeReserve {
		// Closing writes the memtable as a table through a memory map, and a
		// full disk makes that a SIGBUS. All that was acknowledged is in the
		// log files; the next Open reads them as after a crash. The lock is
		// kept until the process ends, since Badger still has the files.
		return fmt.Errorf("close %s: %w", db.dir, full(db.dir, free, closeReserve))
	}
	err := closeBadger(db.bdg)
	if lerr := db.lock.release(); err == nil {
		err = lerr
	}
	if err != nil {
		return fmt.Errorf("close store %s: %w", db.dir, err)
	}
	return nil
}

// broken returns the error of a store whose disk failed, or nil.
func (db *DB) broken() error {
	if p := db.fail.Load(); p != nil {
		return *p
	}
	return nil
}

// now is the clock of the guards.
func (db *DB) now() time.Time { return db.clock() }
