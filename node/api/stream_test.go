package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestEvents(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{})
	dir, s := start(t, func(m *Mux) {
		m.Handle("POST /v1/count", func(w http.ResponseWriter, r *http.Request) error {
			n, err := Decode[int](r)
			if err != nil {
				return err
			}
			return Stream(w, r, func(_ context.Context, send func(any) error) error {
				for i := range n {
					if err := send(map[string]int{"i": i}); err != nil {
						return err
					}
				}
				if n > 2 {
					return fmt.Errorf("count: %w", Errorf(Denied, "too many").WithCode("rate_limited").Try("fewer"))
				}
				return nil
			})
		})
		m.Handle("GET /v1/forever", func(w http.ResponseWriter, r *http.Request) error {
			return Stream(w, r, func(ctx context.Context, send func(any) error) error {
				close(entered)
				<-ctx.Done()
				return Errorf(Unreachable, "stopping")
			})
		})
		m.Handle("GET /v1/cut", func(w http.ResponseWriter, r *http.Request) error {
			io.WriteString(w, ": weft\n\ndata: {}\n\n")
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})
	})
	c := dial(t, dir)
	read := func(method, path string, in any) (string, error) {
		var got []string
		err := c.Events(t.Context(), method, path, in, func(e []byte) error {
			got = append(got, string(e))
			return nil
		})
		return strings.Join(got, " "), err
	}

	if got, err := read("POST", "/v1/count", 2); got != `{"i":0} {"i":1}` || err != nil {
		t.Errorf("two: %q, %v", got, err)
	}
	got, err := read("POST", "/v1/count", 3)
	if e := From(err); got != `{"i":0} {"i":1} {"i":2}` || *e != (Error{Denied, "rate_limited", "count: too many", "fewer"}) {
		t.Errorf("three: %q, %#v", got, e)
	}
	if _, err := read("POST", "/v1/count", "x"); From(err).Kind != Invalid {
		t.Errorf("refused before the first event: %v", err)
	}
	if got, err := read("GET", "/v1/cut", nil); got != "{}" || err == nil {
		t.Errorf("cut: %q, %v", got, err)
	}
	stop := errors.New("enough")
	if err := c.Events(t.Context(), "POST", "/v1/count", 2, func([]byte) error { return stop }); err != stop {
		t.Errorf("fn's error: %v", err)
	}

	// A stream doesn't hold up the stop, and its end is told.
	done := make(chan error)
	go func() {
		_, err := read("GET", "/v1/forever", nil)
		done <- err
	}()
	<-entered
	began := time.Now()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > stopGrace/2 {
		t.Errorf("Close took %v with a stream open", took)
	}
	if err := <-done; From(err).Kind != Unreachable {
		t.Errorf("stream at stop: %v", err)
	}
}

func TestUpgrade(t *testing.T) {
	t.Parallel()
	entered, left := make(chan struct{}, 8), make(chan struct{}, 8)
	dir, s := start(t, func(m *Mux) {
		m.Handle("POST /v1/echo", func(w http.ResponseWriter, r *http.Request) error {
			if r.URL.Query().Has("no") {
				return Errorf(NotFound, "no session").Try("weft sessions")
			}
			return Upgrade(w, r, func(_ context.Context, c *Conn) error {
				entered <- struct{}{}
				defer func() { left <- struct{}{} }()
				if _, err := io.Copy(c, c); err != nil {
					return err
				}
				return c.CloseWrite()
			})
		})
	})
	c := dial(t, dir)

	conn, err := c.Upgrade(t.Context(), "/v1/echo")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	sent := strings.Repeat("bytes\x00\xff", 100_000)
	go func() {
		io.WriteString(conn, sent)
		conn.CloseWrite()
	}()
	back, err := io.ReadAll(conn)
	if err != nil || string(back) != sent {
		t.Errorf("%d bytes back of %d, %v", len(back), len(sent), err)
	}
	<-entered
	<-left

	if _, err := c.Upgrade(t.Context(), "/v1/echo?no"); *From(err) != (Error{NotFound, "not_found", "no session", "weft sessions"}) {
		t.Errorf("refused: %#v", err)
	}
	if err := c.Post(t.Context(), "/v1/echo", nil, nil); From(err).Kind != Usage {
		t.Errorf("without the header: %v", err)
	}
	if _, err := c.Upgrade(t.Context(), "/v1/hello"); err == nil {
		t.Error("a route that doesn't switch was taken for one that does")
	}

	// A taken-over connection that nobody ends is cut at the stop.
	idle, err := c.Upgrade(t.Context(), "/v1/echo")
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	<-entered
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	<-left // Close waited for the handler
	if _, err := idle.Read(make([]byte, 1)); err == nil {
		t.Error("still open after Close")
	}
}

// Connections beyond the limit wait in the kernel, and are served when one of
// the others ends.
func TestConnectionLimit(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln := newLimitListener(inner, 2)
	defer ln.Close()
	accepted := make(chan net.Conn)
	var loop sync.WaitGroup
	loop.Go(func() {
		defer close(accepted)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	})
	for range 3 {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	first, second := <-accepted, <-accepted
	select {
	case <-accepted:
		t.Fatal("a third connection was accepted")
	case <-time.After(50 * time.Millisecond):
	}
	first.Close()
	first.Close() // gives back one slot, not two
	third := <-accepted
	ln.Close()
	loop.Wait() // a full listener still closes
	second.Close()
	third.Close()
}
