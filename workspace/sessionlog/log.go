package sessionlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/weftmesh/weft/store"
)

// Errors that callers tell apart. Each is wrapped with what was attempted.
var (
	// ErrUnavailable means that the log can't be written any more. What the
	// last Append wrote may or may not be on disk; open the log again to know.
	ErrUnavailable = errors.New("the session log can't be written")
	// ErrFork means that the other side's log is not a continuation of ours, or
	// ours not of theirs. Keep both signed heads: they prove it.
	ErrFork = errors.New("the two session logs differ")
	// ErrGap means that records between ours and the given ones are missing.
	ErrGap = errors.New("records are missing in between")
	// ErrFull means that the log has its last record (MaxRecords).
	ErrFull = errors.New("the session log is full")
)

// writeTimeout bounds one synced write. A disk that needs longer is broken.
const writeTimeout = 30 * time.Second

// readBatch is how many leaves are read from the store at once.
const readBatch = 512

// records is where leaves are kept, one stream a session.
var records = store.NewLog("session")

// Log is one session's log. All methods are safe for concurrent use. A session
// must be open once only in a process.
type Log struct {
	db      *store.DB
	session string

	// turn is held by the one goroutine that stages and writes.
	turn chan struct{}

	mu      sync.Mutex // guards below; never held across I/O
	tree    tree       // may be ahead of head while a write is under way
	tally   *tally     // likewise
	head    Head       // on disk
	recent  [][]byte   // the newest leaves on disk, up to head
	waiting []*request
	broken  error
}

// Open reads a session's log from the store, or starts an empty one. It checks
// every stored record again.
func Open(db *store.DB, session string) (*Log, error) {
	if !ValidSession(session) {
		return nil, fmt.Errorf("%w: session id %.70q", ErrRecord, session)
	}
	l := &Log{db: db, session: session, turn: make(chan struct{}, 1)}
	replay := NewReplay(session)
	err := db.View(func(tx *store.Tx) error {
		for from := uint64(0); ; {
			leaves, err := records.Read(tx, session, from, readBatch)
			if err != nil || len(leaves) == 0 {
				return err
			}
			for _, leaf := range leaves {
				if _, err := replay.Add(leaf); err != nil {
					return err
				}
			}
			from += uint64(len(leaves))
		}
	})
	if err != nil {
		return nil, fmt.Errorf("open the log of session %s: %w", session, err)
	}
	l.tree, l.tally = replay.tree, replay.tally
	l.head = l.tree.head(l.tree.size())
	return l, nil
}

// Session is the id of the session.
func (l *Log) Session() string { return l.session }

// Head is the head of what is on disk.
func (l *Log) Head() Head {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head
}

// HeadAt is the head that the log had at an earlier size. ErrGap if it isn't
// that long yet.
func (l *Log) HeadAt(size uint64) (Head, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if size > l.head.Size {
		return Head{}, fmt.Errorf("%w: %d of %d records are here", ErrGap, l.head.Size, size)
	}
	return l.tree.head(size), nil
}

// CheckHead reports whether h is this log's head now or was earlier. ErrFork
// if it differs, ErrGap if it is longer than this log.
func (l *Log) CheckHead(h Head) error {
	have, err := l.HeadAt(h.Size)
	if err == nil && have != h {
		err = fmt.Errorf("%w: at %d records", ErrFork, h.Size)
	}
	return err
}

// Totals counts the records. While a write is under way it may include what is
// being written.
func (l *Log) Totals() Totals {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tally.sum()
}

// OpenCalls lists the ids of the allowed calls that have no result record, and
// their tools: after a restart, those whose outcome is unknown.
func (l *Log) OpenCalls() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	open := map[string]string{}
	for id, tool := range l.tally.calls {
		if tool != "" {
			open[id] = tool
		}
	}
	return open
}

// Err is nil while the log can be written, and ErrUnavailable's reason after.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken
}

// Leaves reads up to limit encoded records from a sequence number on. It
// returns fewer at the end of the log.
func (l *Log) Leaves(from uint64, limit int) ([][]byte, error) {
	l.mu.Lock()
	size := l.head.Size
	if from >= size || limit <= 0 {
		l.mu.Unlock()
		return nil, nil
	}
	limit = int(min(uint64(limit), size-from))
	if oldest := size - uint64(len(l.recent)); from >= oldest { // the usual case: what was just written
		leaves := slices.Clone(l.recent[from-oldest : from-oldest+uint64(limit)])
		l.mu.Unlock()
		return leaves, nil
	}
	l.mu.Unlock()
	var leaves [][]byte
	err := l.db.View(func(tx *store.Tx) (err error) {
		leaves, err = records.Read(tx, l.session, from, limit)
		return err
	})
	if err == nil && len(leaves) != limit {
		err = fmt.Errorf("%d of %d records are there", len(leaves), limit)
	}
	if err != nil {
		return nil, fmt.Errorf("read the log of session %s: %w", l.session, err)
	}
	return leaves, nil
}

// maxRecent is how many leaves stay in memory: more than a batch, so that
// sending what was just written reads no disk.
const maxRecent = 512

// remember keeps the newest leaves. l.mu is held and head is past them.
func (l *Log) remember(base uint64, leaves [][]byte) {
	if base+uint64(len(leaves)) != l.head.Size {
		l.recent = nil
		return
	}
	l.recent = append(l.recent, leaves...)
	if len(l.recent) > 2*maxRecent { // seldom, since it copies
		l.recent = slices.Clone(l.recent[len(l.recent)-maxRecent:])
	}
}

// Knows reports whether a call id was allowed before.
func (l *Log) Knows(call string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, known := l.tally.calls[call]
	return known
}

// Prove makes the C2SP tlog-proof@v1 of one record under a checkpoint of this
// log.
func (l *Log) Prove(seq uint64, checkpoint []byte, p Parties) ([]byte, error) {
	c, err := VerifyCheckpoint(checkpoint, p)
	if err != nil {
		return nil, err
	}
	if err := l.CheckHead(c.Head); err != nil {
		return nil, err
	}
	if seq >= c.Head.Size {
		return nil, fmt.Errorf("%w: record %d of a log of %d", ErrProof, seq, c.Head.Size)
	}
	l.mu.Lock()
	path, err := tlog.ProveRecord(int64(c.Head.Size), int64(seq), &l.tree)
	l.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("prove record %d: %w", seq, err)
	}
	return formatProof(seq, path, checkpoint), nil
}

// take waits for the turn to write.
func (l *Log) take(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *Log) release() { <-l.turn }
