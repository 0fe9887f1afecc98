package store

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	badger "github.com/dgraph-io/badger/v4"
)

// noiseEvery bounds how often the same line of Badger is repeated: a failing
// flush is tried again every second, for ever.
const noiseEvery = time.Minute

// noiseMax bounds a line: some of Badger's print whole keys.
const noiseMax = 300

// badgerLog is Badger's logger. It passes on what a person must act on, and
// catches the one error that Badger tells its log only.
type badgerLog struct {
	log  *slog.Logger
	dir  string
	sync atomic.Pointer[error]

	mu   sync.Mutex // guards below
	last map[string]time.Time
}

var _ badger.Logger = (*badgerLog)(nil)

// Errorf is called by any goroutine of Badger.
func (l *badgerLog) Errorf(format string, args ...any) {
	text := strings.TrimSpace(fmt.Sprintf(format, args...))
	// value.go, write: the sync of the value log is deferred and its error
	// goes nowhere else. It runs before the commit returns.
	if strings.HasPrefix(format, "Error while curlf sync") {
		err := fmt.Errorf("sync the value log: %s", text)
		l.sync.CompareAndSwap(nil, &err)
	}
	l.mu.Lock()
	quiet := time.Since(l.last[format]) < noiseEvery
	if !quiet {
		if l.last == nil {
			l.last = make(map[string]time.Time)
		}
		l.last[format] = time.Now()
	}
	l.mu.Unlock()
	if !quiet {
		l.log.Error("badger", "dir", l.dir, "err", text[:min(len(text), noiseMax)])
	}
}

// Warningf is for operators of large databases; ours hear it at Debug.
func (l *badgerLog) Warningf(format string, args ...any) {
	l.log.Debug("badger", "dir", l.dir, "warning", strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// Infof drops Badger's diary.
func (l *badgerLog) Infof(string, ...any) {}

// Debugf drops Badger's diary.
func (l *badgerLog) Debugf(string, ...any) {}

// syncError returns the first failed sync of the value log.
func (l *badgerLog) syncError() error {
	if p := l.sync.Load(); p != nil {
		return *p
	}
	return nil
}
