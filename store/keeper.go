package store

import (
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"

	badger "github.com/dgraph-io/badger/v4"
)

// When the keeper has work.
const (
	// compactAt is how many new tables are merged at once, at least. Each is
	// about one memtable.
	compactAt = 4
	// compactMax bounds it: every read may look into each new table.
	compactMax = 32
	// valueLogAt is how many bytes go to the value log before its garbage is
	// looked for even if the tables are too few: large values make few keys.
	valueLogAt = 64 << 20
	// flushWait bounds the wait for Badger to write a table.
	flushWait = 10 * time.Second
)

// keeper says when the tables and the value log need work. Badger's own
// compactors ask 20 times a second, for ever; the keeper is told by commits.
type keeper struct {
	kick   chan struct{} // holds one token when there may be work
	end    chan struct{}
	tables atomic.Int64 // bytes for the tables since the last look
	values atomic.Int64 // bytes for the value log since it was last cleaned

	cramped bool // owned by keepLoop: the lack of room was reported
}

func (k *keeper) open() {
	k.kick = make(chan struct{}, 1)
	k.end = make(chan struct{})
}

func (k *keeper) stop() { close(k.end) }

// wrote counts one commit.
func (k *keeper) wrote(bytes, size int64) {
	t := k.tables.Add(size)
	v := k.values.Add(max(0, bytes-size))
	if t >= memTable/2 || v >= valueLogAt {
		k.wake()
	}
}

func (k *keeper) wake() {
	select {
	case k.kick <- struct{}{}:
	default:
	}
}

// keepLoop is the one goroutine that compacts. It ends when the store closes.
func (db *DB) keepLoop() {
	for {
		select {
		case <-db.keep.end:
			return
		case <-db.keep.kick:
		}
		if db.broken() == nil {
			db.tidy()
		}
	}
}

// tidy compacts and cleans if that is worthwhile.
func (db *DB) tidy() {
	db.keep.tables.Store(0)
	least := compactAt
	if db.keep.values.Load() >= valueLogAt {
		db.keep.values.Store(0)
		// What was deleted is known only once tables merge, so make one.
		if err := db.rotate(); err != nil {
			db.log.Debug("rotate the memtable", "err", err)
			return
		}
		least = 1
	}
	var fresh int
	var rest int64
	for _, l := range db.bdg.Levels() {
		if l.Level == 0 {
			fresh = l.NumTables
		} else {
			rest += l.Size
		}
	}
	// Waiting until the new tables are a quarter of the old ones keeps the
	// bytes rewritten proportional to the bytes written.
	if fresh < max(least, min(int(rest/(4*memTable)), compactMax)) {
		return
	}
	if free, ok := diskFree(db.dir); ok && free < rest+int64(fresh)*memTable+2*valueLogFile+writeReserve {
		if !db.keep.cramped {
			db.log.Warn("too little disk space to compact the store", "dir", db.dir, "free", free)
		}
		db.keep.cramped = true
		return
	}
	db.keep.cramped = false
	if err := db.bdg.Flatten(1); err != nil {
		db.log.Warn("compact the store", "dir", db.dir, "err", err)
		return
	}
	db.collect()
}

// collect rewrites value log files of which at least half is garbage.
func (db *DB) collect() {
	for {
		select {
		case <-db.keep.end:
			return
		default:
		}
		// At most half of one file is copied, so commits wait some 20 ms.
		db.writing.Lock()
		err := db.bdg.RunValueLogGC(0.5)
		db.writing.Unlock()
		switch {
		case err == nil: // it freed one; there may be more
		case errors.Is(err, badger.ErrNoRewrite) || errors.Is(err, badger.ErrRejected):
			return
		default:
			db.log.Warn("collect the value log", "dir", db.dir, "err", err)
			return
		}
	}
}

// rotate makes Badger write its memtable as a table, by filling it: Badger has
// no call for that.
func (db *DB) rotate() error {
	const pad, perUpdate = valueThreshold - 24, 400
	before := db.tableCount()
	for i := 0; i < memTable/pad+perUpdate && db.tableCount() == before; i += perUpdate {
		err := db.Update(context.Background(), func(tx *Tx) error {
			for j := range perUpdate {
				k := string(binary.BigEndian.AppendUint32([]byte{spacePad}, uint32(i+j)))
				if err := tx.put(k, write{val: make([]byte, pad)}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	deadline := time.NewTimer(flushWait)
	defer deadline.Stop()
	tick := time.NewTicker(flushWait / 500)
	defer tick.Stop()
	for db.tableCount() == before {
		select {
		case <-tick.C:
		case <-deadline.C:
			return context.DeadlineExceeded
		case <-db.keep.end:
			return ErrClosed
		}
	}
	return nil
}

// tableCount counts the new tables.
func (db *DB) tableCount() int { return db.bdg.Levels()[0].NumTables }
