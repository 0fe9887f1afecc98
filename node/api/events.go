package api

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/weftmesh/weft/protocols/strict"
)

const (
	// keepAlive shows a proxy or a sleeping client that the stream lives.
	keepAlive = 15 * time.Second
	// eventWait is how long a client may take to read one event before it is
	// cut: a stopped client must not hold memory.
	eventWait = 10 * time.Second
)

// Stream answers r with server-sent events. fn sends any number of values and
// returns; its error becomes the last event. Its context ends when the client
// leaves or the server stops.
func Stream(w http.ResponseWriter, r *http.Request, fn func(ctx context.Context, send func(v any) error) error) error {
	ctx, cancel := streamContext(r)
	defer cancel()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Connection", "close") // the write deadline stays on it
	w.WriteHeader(http.StatusOK)
	out := &eventWriter{w: w, rc: http.NewResponseController(w)}
	if err := out.write(": weft\n\n"); err != nil {
		return err
	}

	var beat sync.WaitGroup
	beat.Go(func() {
		tick := time.NewTicker(keepAlive)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if out.write(": alive\n\n") != nil {
					cancel()
					return
				}
			}
		}
	})
	err := fn(ctx, func(v any) error {
		body, err := strict.Marshal(v)
		if err != nil {
			return fmt.Errorf("encode event: %w", err)
		}
		return out.write("data: " + string(body) + "\n\n")
	})
	cancel()
	beat.Wait()
	if err != nil {
		e := From(err)
		body, err := strict.Marshal(streamError{document: e.document(), Status: e.Kind.Status()})
		if err != nil {
			return fmt.Errorf("encode error: %w", err)
		}
		return out.write("event: error\ndata: " + string(body) + "\n\n")
	}
	return out.write("event: end\ndata: {}\n\n")
}

// Streaming gives r a context that ends early when the server begins to stop,
// for a handler that streams by other means than Stream and Upgrade. The caller
// calls done when it has answered.
func Streaming(r *http.Request) (_ *http.Request, done func()) {
	ctx, cancel := streamContext(r)
	return r.WithContext(ctx), cancel
}

// streamContext is r's context, ended early when the server begins to stop.
func streamContext(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	if server, ok := r.Context().Value(stopping{}).(context.Context); ok {
		unhook := context.AfterFunc(server, cancel)
		return ctx, func() { unhook(); cancel() }
	}
	return ctx, cancel
}

// eventWriter writes whole events, one at a time.
type eventWriter struct {
	mu sync.Mutex
	w  http.ResponseWriter
	rc *http.ResponseController
}

func (e *eventWriter) write(text string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.rc.SetWriteDeadline(time.Now().Add(eventWait)); err != nil {
		return fmt.Errorf("send event: %w", err)
	}
	if _, err := e.w.Write([]byte(text)); err != nil {
		return fmt.Errorf("send event: %w", err)
	}
	if err := e.rc.Flush(); err != nil {
		return fmt.Errorf("send event: %w", err)
	}
	return nil
}
