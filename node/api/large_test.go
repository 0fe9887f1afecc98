package api

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestHandleLarge: a route's own limit holds for it and for no other.
func TestHandleLarge(t *testing.T) {
	t.Parallel()
	const limit = 4 << 20
	size := func(w http.ResponseWriter, r *http.Request) error {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		return Reply(w, len(body))
	}
	dir, _ := start(t, func(m *Mux) {
		m.HandleLarge("POST /v1/large", limit, size)
		m.Handle("POST /v1/small", size)
	})
	c := dial(t, dir)
	for _, tc := range []struct {
		path string
		size int
		ok   bool
	}{
		{"/v1/large", MaxBody + 1, true},
		{"/v1/large", limit, true},
		{"/v1/large", limit + 1, false},
		{"/v1/small", MaxBody, true},
		{"/v1/small", MaxBody + 1, false},
	} {
		var got int
		// The body is a JSON string: two bytes are its quotes.
		err := c.Post(t.Context(), tc.path, strings.Repeat("x", tc.size-2), &got)
		if tc.ok && (err != nil || got != tc.size) {
			t.Errorf("%s with %d bytes: %d, %v", tc.path, tc.size, got, err)
		}
		if !tc.ok && (err == nil || From(err).Kind != Invalid) {
			t.Errorf("%s with %d bytes: %d, %v", tc.path, tc.size, got, err)
		}
	}
}

// TestStreaming: a handler that streams by its own means hears that the server
// stops, and does not hold it up.
func TestStreaming(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{})
	dir, s := start(t, func(m *Mux) {
		m.Handle("GET /v1/own", func(w http.ResponseWriter, r *http.Request) error {
			r, done := Streaming(r)
			defer done()
			io.WriteString(w, "begun\n")
			http.NewResponseController(w).Flush()
			close(entered)
			<-r.Context().Done()
			return nil
		})
	})
	c := dial(t, dir)
	got := make(chan error, 1)
	go func() { got <- c.Copy(t.Context(), "/v1/own", io.Discard) }()
	<-entered
	began := time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took >= stopGrace {
		t.Errorf("stopping took %v", took)
	}
	<-got
}
