package api

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// echoTwice answers at once with the body, in two pieces.
func echoTwice(w http.ResponseWriter, r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	w.Write(body)
	http.NewResponseController(w).Flush()
	_, err = w.Write(body)
	return err
}

func TestProxy(t *testing.T) {
	t.Parallel()
	dir, s := start(t, func(m *Mux) { m.Handle("/v1/quick", echoTwice) })
	c := dial(t, dir)
	front := httptest.NewServer(c.Proxy("/v1/quick"))
	defer front.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	ask := func(body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, front.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(got)
	}
	for range 200 {
		if status, got := ask("hello"); status != http.StatusOK || got != "hellohello" {
			t.Fatalf("%d %q", status, got)
		}
	}
	if status, got := ask(""); status != http.StatusOK || got != "" {
		t.Errorf("without a body: %d %q", status, got)
	}
	for _, n := range []int{MaxBody + 1, maxProxied + 1} {
		if status, got := ask(strings.Repeat("x", n)); status != Invalid.Status() || !strings.Contains(got, "bytes") {
			t.Errorf("%d bytes: %d %q", n, status, got)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if status, got := ask("hello"); status != NotRunning.Status() || !strings.Contains(got, `"hint"`) {
		t.Errorf("without a daemon: %d %q", status, got)
	}
}

// answering is a ResponseWriter that says when the answer begins, as it does
// in a server: from then on the request's body can't be read.
type answering struct {
	*httptest.ResponseRecorder
	begun chan struct{}
	once  sync.Once
}

func (a *answering) WriteHeader(status int) {
	a.once.Do(func() { close(a.begun) })
	a.ResponseRecorder.WriteHeader(status)
}

// wholeBody gives everything in one read, with its end. Who reads on gets an
// answer only after the response has begun, and then the server's error.
type wholeBody struct {
	*answering
	text string
}

func (b *wholeBody) Read(p []byte) (int, error) {
	if b.text != "" {
		n := copy(p, b.text)
		b.text = b.text[n:]
		return n, io.EOF
	}
	<-b.begun
	return 0, http.ErrBodyReadAfterClose
}

func (b *wholeBody) Close() error { return nil }

// TestProxyReadsFirst: an answer that comes while the transport still looks
// for the end of the request must come through whole.
func TestProxyReadsFirst(t *testing.T) {
	t.Parallel()
	dir, _ := start(t, func(m *Mux) { m.Handle("/v1/quick", echoTwice) })
	proxy := dial(t, dir).Proxy("/v1/quick")
	for range 300 {
		w := &answering{ResponseRecorder: httptest.NewRecorder(), begun: make(chan struct{})}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", &wholeBody{w, "hello"})
		r.ContentLength = 5
		done := make(chan any, 1)
		go func() {
			defer func() { done <- recover() }()
			proxy.ServeHTTP(w, r)
		}()
		broke := <-done
		cancel()
		if got := w.Body.String(); broke != nil || w.Code != http.StatusOK || got != "hellohello" {
			t.Fatalf("%d %q, %v", w.Code, got, broke)
		}
	}
}
