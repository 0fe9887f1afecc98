package model

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// maxBody bounds one request; an agent's history of a whole script is below
// 1 MiB.
const maxBody = 16 << 20

// Request is one request an agent made.
type Request struct {
	// Path is the URL's path, which tells the protocol.
	Path string
	// Body is the request as it came.
	Body []byte
	// Said is the reply in short: "call NAME" or the text.
	Said string
}

// Server is a running scripted model. Its fields don't change after Start.
type Server struct {
	// URL is the base without a path: http://127.0.0.1:PORT.
	URL string

	script Script

	mu       sync.Mutex // guards below
	requests []Request
	answered int
}

// Start runs a server until the test ends.
func Start(t testing.TB, script Script) *Server {
	t.Helper()
	if script.Trigger == "" || script.Server == "" {
		t.Fatal("model: a script needs a trigger and a server")
	}
	if script.Limit == 0 {
		script.Limit = 4*len(script.Steps) + 8
	}
	s := &Server{script: script}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	s.URL = h.URL
	return s
}

// Requests returns what came so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request{}, s.requests...)
}

// Saw reports whether any request held the text, raw or as a JSON string
// would carry it.
func (s *Server) Saw(text string) bool {
	quoted, err := json.Marshal(text)
	if err != nil {
		return false
	}
	inner := string(quoted[1 : len(quoted)-1])
	for _, r := range s.Requests() {
		if strings.Contains(string(r.Body), text) || strings.Contains(string(r.Body), inner) {
			return true
		}
	}
	return false
}

// protocol is one of the four spellings of the same conversation.
type protocol struct {
	read  func(body []byte) (turn, error)
	write func(w *stream, t turn, r reply)
}

// choose finds the protocol of a path, or a fixed answer for the few other
// things that agents ask.
func choose(path string) (protocol, string) {
	switch {
	case strings.HasSuffix(path, "/count_tokens"):
		return protocol{}, `{"input_tokens":10}`
	case strings.HasSuffix(path, ":countTokens"):
		return protocol{}, `{"totalTokens":10}`
	case strings.HasSuffix(path, "/messages"):
		return protocol{readAnthropic, writeAnthropic}, ""
	case strings.HasSuffix(path, "/chat/completions"):
		return protocol{readChat, writeChat}, ""
	case strings.HasSuffix(path, "/responses"):
		return protocol{readResponses, writeResponses}, ""
	case strings.HasSuffix(path, ":streamGenerateContent"):
		return protocol{readGeminiStream, writeGemini}, ""
	case strings.HasSuffix(path, ":generateContent"):
		return protocol{readGemini, writeGemini}, ""
	case strings.HasSuffix(path, "/models"):
		return protocol{}, `{"object":"list","data":[{"id":"` + Name + `","object":"model","created":1,"owned_by":"weft"}],"models":[]}`
	}
	return protocol{}, ""
}

// Name is the model's name in agents' configurations.
const Name = "scripted"

// ServeHTTP answers one request of an agent.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	p, fixed := choose(r.URL.Path)
	w.Header().Set("Content-Type", "application/json")
	switch {
	case fixed != "":
		s.record(r.URL.Path, body, "fixed")
		io.WriteString(w, fixed)
		return
	case p.read == nil || r.Method != http.MethodPost:
		s.record(r.URL.Path, body, "not found")
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"error":{"message":"not found","type":"not_found"}}`)
		return
	}
	t, err := p.read(body)
	if err != nil {
		s.record(r.URL.Path, body, "bad request: "+err.Error())
		w.WriteHeader(http.StatusBadRequest)
		json.NewEncoder(w).Encode(obj{"error": obj{"message": err.Error(), "type": "invalid_request_error"}})
		return
	}
	p.write(&stream{w: w}, t, s.answer(r.URL.Path, body, t))
}

// answer decides under the lock, so that the guard counts right.
func (s *Server) answer(path string, body []byte, t turn) reply {
	r := s.script.decide(t)
	s.mu.Lock()
	if r.call != nil {
		s.answered++
		if s.answered > s.script.Limit {
			r = reply{text: LoopGuard}
		}
	}
	s.mu.Unlock()
	said := r.text
	if r.call != nil {
		said = "call " + r.call.tool.group + " " + r.call.tool.name
	}
	s.record(path, body, said)
	return r
}

func (s *Server) record(path string, body []byte, said string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, Request{Path: path, Body: body, Said: said})
}
