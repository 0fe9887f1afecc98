package store

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// maxQueued bounds the functions that wait for the committer; further callers
// wait outside, in their own goroutines.
const maxQueued = 1024

// request is one Update on its way.
type request struct {
	fn    func(*Tx) error
	taken atomic.Bool
	done  chan error // one answer, buffered
}

// claim decides between the committer, which runs the request, and the
// caller, who gave up: the first one has it.
func (r *request) claim() bool { return r.taken.CompareAndSwap(false, true) }

// queue is what waits for the committer.
type queue struct {
	slots chan struct{} // a token for each request in list
	wake  chan struct{} // holds one token when list may have grown
	end   chan struct{} // closed by close

	mu     sync.Mutex // guards below
	list   []*request
	closed bool
}

// open makes the queue usable.
func (q *queue) open() {
	q.slots = make(chan struct{}, maxQueued)
	q.wake = make(chan struct{}, 1)
	q.end = make(chan struct{})
}

// add puts a request at the end, waiting for room.
func (q *queue) add(ctx context.Context, r *request) error {
	if ctx.Err() != nil {
		return fmt.Errorf("wait for the store: %w", ctx.Err())
	}
	select {
	case q.slots <- struct{}{}:
	case <-q.end:
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("wait for the store: %w", ctx.Err())
	}
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return ErrClosed
	}
	q.list = append(q.list, r)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return nil
}

// take returns all that waits, or nothing.
func (q *queue) take() []*request {
	q.mu.Lock()
	list := q.list
	q.list = nil
	q.mu.Unlock()
	for range list {
		<-q.slots
	}
	return list
}

// close refuses what comes from now on.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	close(q.end)
}
