package api

import (
	"fmt"
	"io"
	"net/http"

	"github.com/weftmesh/weft/protocols/strict"
)

// MaxBody bounds a request body, but for routes that HandleLarge gives a limit
// of their own. Bulk bytes go over Upgrade.
const MaxBody = 1 << 20

// Handler answers one request. An error that it returns before it wrote
// anything becomes the response, by the table of kinds.
type Handler func(w http.ResponseWriter, r *http.Request) error

// Mux routes requests by the patterns of net/http, such as
// "GET /v1/sessions/{id}". All routes are added before the server starts.
type Mux struct {
	mux   *http.ServeMux
	count func(route string, status int) // set by the server before it serves
}

// NewMux returns a Mux without routes.
func NewMux() *Mux {
	return &Mux{mux: http.NewServeMux(), count: func(string, int) {}}
}

// Handle adds a route. It panics on a malformed or conflicting pattern, as
// net/http does.
func (m *Mux) Handle(pattern string, h Handler) { m.HandleLarge(pattern, MaxBody, h) }

// HandleLarge is Handle for a route whose requests may have up to limit bytes
// of body.
func (m *Mux) HandleLarge(pattern string, limit int64, h Handler) {
	m.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		sw := &statusWriter{ResponseWriter: w}
		defer func() { m.count(pattern, sw.status) }()
		if r.Body != nil {
			r.Body = http.MaxBytesReader(w, r.Body, limit)
		}
		err := h(sw, r)
		switch {
		case err == nil && sw.status == 0:
			sw.WriteHeader(http.StatusNoContent)
		case err != nil && sw.status == 0:
			writeError(sw, From(err))
		case err != nil && !sw.hijacked:
			// The response is half out; only cutting the connection tells
			// the client that it isn't whole.
			panic(http.ErrAbortHandler)
		}
	})
}

// ServeHTTP routes r, and answers unknown routes in our error form.
func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, pattern := m.mux.Handler(r); pattern == "" {
		m.count("unknown", Skew.Status())
		writeError(w, Errorf(Skew, "the running weft has no %s %s", r.Method, r.URL.Path).
			Try("restart it: the command and the daemon may be of different versions (weft version, weft status)"))
		return
	}
	m.mux.ServeHTTP(w, r)
}

// Decode reads a JSON request body strictly. An empty body is the zero T.
func Decode[T any](r *http.Request) (T, error) {
	var v T
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return v, fmt.Errorf("read request: %w", err)
	}
	if len(body) == 0 {
		return v, nil
	}
	if err := strict.Unmarshal(body, MaxBody, &v); err != nil {
		return v, fmt.Errorf("request body: %w", err)
	}
	return v, nil
}

// Reply answers 200 with v as JSON.
func Reply(w http.ResponseWriter, v any) error {
	body, err := strict.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode response: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(append(body, '\n'))
	if err != nil {
		return fmt.Errorf("write response: %w", err)
	}
	return nil
}

// statusWriter remembers what was answered.
type statusWriter struct {
	http.ResponseWriter
	status   int
	hijacked bool
}

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach Flush and deadlines.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
