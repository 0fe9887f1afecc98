package store

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	badger "github.com/dgraph-io/badger/v4"
)

// batch is what one commit will write, and who waits for it.
type batch struct {
	base    *badger.Txn
	over    overlay
	bytes   int64 // of keys and values
	size    int64 // as Badger counts
	waiters []*request
}

// commitLoop is the one goroutine that runs the functions of Update and
// writes. It ends when the queue is closed and empty.
func (db *DB) commitLoop() {
	crowd := false // the last commit had company: more is likely on its way
	for {
		reqs := db.queue.take()
		if len(reqs) == 0 {
			select {
			case <-db.queue.wake:
				continue
			case <-db.queue.end:
				if reqs = db.queue.take(); len(reqs) == 0 {
					return
				}
			}
		}
		crowd = db.fold(reqs, crowd)
	}
}

// fold runs requests, and those that come meanwhile, and commits them; usually
// in one transaction. It reports whether there were several.
func (db *DB) fold(reqs []*request, crowd bool) bool {
	b := db.newBatch()
	n := 0
	for idle := 0; ; {
		for _, r := range reqs {
			if r.claim() {
				b = db.run(r, b)
				n++
			}
		}
		if len(b.waiters) >= maxQueued {
			break
		}
		if reqs = db.queue.take(); len(reqs) > 0 {
			idle = 0
			continue
		}
		// The callers of the last commit have just been woken. Letting them
		// run costs a microsecond and saves them a whole sync; a lone caller
		// is never made to wait.
		if idle++; !crowd || idle > 2 {
			break
		}
		runtime.Gosched()
	}
	db.finish(b)
	return n > 1
}

func (db *DB) newBatch() *batch {
	return &batch{base: db.bdg.NewTransaction(false), over: overlay{}}
}

// run runs one request over the batch, and returns the batch to go on with:
// another one if what the request wrote doesn't fit the first.
func (db *DB) run(r *request, b *batch) *batch {
	if err := db.broken(); err != nil {
		r.done <- err
		return b
	}
	tx := &Tx{db: db, base: b.base, under: b.over, own: overlay{}}
	err := r.fn(tx)
	tx.done = true
	if err != nil {
		r.done <- err
		return b
	}
	bytes, size := measure(tx.own)
	if len(b.over) > 0 && (int64(len(b.over)+len(tx.own)) >= db.maxCount || b.size+size >= db.maxSize) {
		// The function read what the first batch wrote, so it stands or falls
		// with that; what it wrote is as right on top of it as before.
		if err := db.finish(b); err != nil {
			r.done <- err
			return db.newBatch()
		}
		b = db.newBatch()
	}
	for k, w := range tx.own {
		b.over[k] = w
	}
	b.bytes += bytes
	b.size += size
	// A function that wrote nothing waits too: it may have answered from
	// writes that are not yet durable.
	b.waiters = append(b.waiters, r)
	return b
}

// measure counts an overlay's bytes, and its size as Badger counts it
// (structs.go estimateSizeAndSetThreshold, txn.go checkSize).
func measure(o overlay) (bytes, size int64) {
	for k, w := range o {
		bytes += int64(len(k) + len(w.val))
		n := len(w.val) + 1
		if n >= valueThreshold {
			n = 12 // a pointer
		}
		size += int64(len(k) + n + 12)
	}
	return bytes, size
}

// finish commits a batch and answers everybody in it.
func (db *DB) finish(b *batch) error {
	defer b.base.Discard()
	err := db.commit(b)
	for _, r := range b.waiters {
		r.done <- err
	}
	if err == nil {
		db.keep.wrote(b.bytes, b.size)
	}
	return err
}

// commit makes the batch's writes durable, all or nothing.
func (db *DB) commit(b *batch) error {
	if len(b.over) == 0 {
		return nil
	}
	if f := db.fault.Load(); f != nil {
		if err := (*f)("commit"); err != nil {
			return refused(err)
		}
	}
	if free, ok := diskFree(db.dir); ok {
		if need := 2*b.bytes + writeReserve; free < need {
			return full(db.dir, free, need)
		}
	}
	big := int64(len(b.over)) >= db.maxCount || b.size >= db.maxSize
	var err error
	if !big {
		err = db.write(b.over)
	}
	if big || errors.Is(err, badger.ErrTxnTooBig) {
		err = db.writeParts(b.over)
	}
	if err != nil && !errors.Is(err, ErrTooLarge) {
		return db.poison(err)
	}
	return err
}

// write puts one overlay into one synced Badger transaction. ErrTxnTooBig
// means that nothing was written.
func (db *DB) write(o overlay) error {
	txn := db.bdg.NewTransaction(true)
	defer txn.Discard()
	for k, w := range o {
		if err := set(txn, k, w); err != nil {
			return err
		}
	}
	db.writing.Lock()
	err := txn.Commit()
	db.writing.Unlock()
	if err != nil {
		return err
	}
	if err := db.noise.syncError(); err != nil {
		return err
	}
	return db.syncDir()
}

// set puts one change into a Badger transaction.
func set(txn *badger.Txn, key string, w write) error {
	if w.gone {
		return txn.Delete([]byte(key))
	}
	e := badger.NewEntry([]byte(key), append(append(make([]byte, 0, len(w.val)+1), wholeValue), w.val...))
	e.ExpiresAt = w.expires
	return txn.SetEntry(e)
}

// syncDir makes new files' names durable. Badger makes a log file now and then
// in the middle of a write and leaves its name to the file system's habits.
func (db *DB) syncDir() error {
	fi, err := os.Stat(db.dir)
	if err != nil {
		return err
	}
	if fi.ModTime().Equal(db.dirTime) {
		return nil
	}
	d, err := os.Open(db.dir)
	if err != nil {
		return err
	}
	defer d.Close()
	// Some systems can't sync a folder, and need not.
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, os.ErrPermission) {
		return err
	}
	db.dirTime = fi.ModTime()
	return nil
}

// poison records the first failed write and returns its error for all.
func (db *DB) poison(err error) error {
	err = broken(fmt.Errorf("write to %s: %w", db.dir, err))
	if db.fail.CompareAndSwap(nil, &err) {
		db.log.Error("store stopped: a write failed", "dir", db.dir, "err", err)
	}
	return db.broken()
}
