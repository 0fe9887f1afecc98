package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftmesh/weft/node/home"
)

// start runs a server with the routes of add on a fresh, locked home.
func start(t *testing.T, add func(*Mux)) (home.Dir, *Server) {
	t.Helper()
	dir := home.Dir(t.TempDir())
	lock, err := dir.Lock()
	if err != nil {
		t.Fatal(err)
	}
	mux := NewMux()
	mux.Handle("GET /v1/hello", func(w http.ResponseWriter, r *http.Request) error {
		return Reply(w, map[string]string{"hello": r.URL.Query().Get("name")})
	})
	if add != nil {
		add(mux)
	}
	s := NewServer(Config{Dir: dir.API(), Registerer: prometheus.NewRegistry()}, mux)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		lock.Close()
	})
	return dir, s
}

func dial(t *testing.T, dir home.Dir) *Client {
	t.Helper()
	c, err := Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestRequests(t *testing.T) {
	t.Parallel()
	type pair struct {
		A int    `json:"a"`
		B string `json:"b"`
	}
	dir, _ := start(t, func(m *Mux) {
		m.Handle("POST /v1/pair", func(w http.ResponseWriter, r *http.Request) error {
			p, err := Decode[pair](r)
			if err != nil {
				return err
			}
			p.A++
			return Reply(w, p)
		})
		m.Handle("DELETE /v1/pair", func(http.ResponseWriter, *http.Request) error { return nil })
		m.Handle("GET /v1/deny", func(http.ResponseWriter, *http.Request) error {
			return Errorf(Denied, "not yours").WithCode("outside_grant").Try("ask the owner")
		})
		m.Handle("GET /v1/half", func(w http.ResponseWriter, _ *http.Request) error {
			io.WriteString(w, `{"a":`)
			return errors.New("boom")
		})
	})
	c := dial(t, dir)
	ctx := t.Context()

	var p pair
	if err := c.Post(ctx, "/v1/pair", pair{A: 1, B: "x"}, &p); err != nil || p != (pair{2, "x"}) {
		t.Errorf("pair: %+v, %v", p, err)
	}
	if err := c.Post(ctx, "/v1/pair", nil, &p); err != nil || p.A != 1 {
		t.Errorf("empty body: %+v, %v", p, err)
	}
	if err := c.Do(ctx, "DELETE", "/v1/pair", nil, nil); err != nil {
		t.Errorf("no content: %v", err)
	}
	wantErr := func(name string, err error, want Error) {
		t.Helper()
		var e *Error
		if !errors.As(err, &e) || e.Kind != want.Kind || e.Code != want.Code || !strings.Contains(e.Message, want.Message) || (want.Hint != "" && e.Hint != want.Hint) {
			t.Errorf("%s: %#v, want %#v", name, err, want)
		}
	}
	wantErr("denied", c.Get(ctx, "/v1/deny", nil),
		Error{Kind: Denied, Code: "outside_grant", Message: "not yours", Hint: "ask the owner"})
	wantErr("unknown member", c.Post(ctx, "/v1/pair", map[string]int{"c": 1}, nil),
		Error{Kind: Invalid, Code: "bad_input", Message: "unknown"})
	wantErr("too large", c.Post(ctx, "/v1/pair", pair{B: strings.Repeat("x", MaxBody)}, nil),
		Error{Kind: Invalid, Code: "bad_input", Message: "over 1048576 bytes"})
	wantErr("unknown route", c.Get(ctx, "/v1/other", nil), Error{Kind: Skew, Code: "skew", Message: "/v1/other"})
	wantErr("wrong method", c.Post(ctx, "/v1/hello", nil, nil), Error{Kind: Skew, Code: "skew", Message: "POST"})
	if err := c.Get(ctx, "/v1/half", nil); err == nil {
		t.Error("half an answer was taken for a whole one")
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if err := c.Get(over, "/v1/hello", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	late, cancel := context.WithTimeout(ctx, 0)
	defer cancel()
	wantErr("late", c.Get(late, "/v1/hello", nil), Error{Kind: Timeout, Message: "in time"})
}

// Attacks on the guard, each over a real socket.
func TestGuard(t *testing.T) {
	t.Parallel()
	dir, s := start(t, nil)
	addr := s.ln.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	token, err := readSmall(filepath.Join(dir.API(), tokenFile))
	if err != nil {
		t.Fatal(err)
	}
	bearer := "Authorization: Bearer " + token
	tests := []struct {
		name    string
		host    string
		headers []string
		want    int
	}{
		{"owner", addr, []string{bearer}, 200},
		{"owner by name", "localhost:" + port, []string{bearer}, 200},
		{"owner on IPv6", "[::1]:" + port, []string{bearer}, 200},
		{"own page", addr, []string{bearer, "Origin: http://" + addr, "Sec-Fetch-Site: same-origin"}, 200},
		{"no token", addr, nil, 401},
		{"empty token", addr, []string{"Authorization: Bearer "}, 401},
		{"half a token", addr, []string{bearer[:len(bearer)-1]}, 401},
		{"longer token", addr, []string{bearer + "0"}, 401},
		{"basic", addr, []string{"Authorization: Basic " + token}, 401},
		{"token in the query", addr, []string{"X: y"}, 401},
		{"rebound name", "evil.example:" + port, []string{bearer}, 403},
		{"name that starts like us", "localhost.evil.example:" + port, []string{bearer}, 403},
		{"address in a name", "127.0.0.1.nip.example:" + port, []string{bearer}, 403},
		{"other port", "127.0.0.1:1", []string{bearer}, 403},
		{"no port", "127.0.0.1", []string{bearer}, 403},
		{"any address", "0.0.0.0:" + port, []string{bearer}, 403},
		{"zone", "[::1%25lo]:" + port, []string{bearer}, 403},
		{"foreign page", addr, []string{bearer, "Origin: https://evil.example"}, 403},
		{"null page", addr, []string{bearer, "Origin: null"}, 403},
		{"page on another port", addr, []string{bearer, "Origin: http://127.0.0.1:1"}, 403},
		{"page by another name", addr, []string{bearer, "Origin: http://localhost:" + port}, 403},
		{"two origins", addr, []string{bearer, "Origin: http://" + addr, "Origin: https://evil.example"}, 403},
		{"cross-site fetch", addr, []string{bearer, "Sec-Fetch-Site: cross-site"}, 403},
		{"same-site fetch", addr, []string{bearer, "Sec-Fetch-Site: same-site"}, 403},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(10 * time.Second))
			fmt.Fprintf(conn, "GET /v1/hello?token=%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n", token, tt.host)
			for _, h := range tt.headers {
				fmt.Fprintf(conn, "%s\r\n", h)
			}
			fmt.Fprint(conn, "\r\n")
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			// net/http itself refuses a Host that is no host, with 400.
			if resp.StatusCode != tt.want && !(tt.want == 403 && resp.StatusCode == 400) {
				t.Fatalf("status %d, want %d: %s", resp.StatusCode, tt.want, body)
			}
			if tt.want != 200 && strings.Contains(string(body), "hello\":") {
				t.Errorf("refused and answered: %s", body)
			}
			if strings.Contains(string(body), token) {
				t.Error("the token is in the answer")
			}
		})
	}
}

func TestFilesOfTheAPI(t *testing.T) {
	t.Parallel()
	dir, s := start(t, nil)
	for name, want := range map[string]os.FileMode{"": 0o700 | os.ModeDir, tokenFile: 0o600, addressFile: 0o600} {
		st, err := os.Stat(filepath.Join(dir.API(), name))
		if err != nil {
			t.Fatal(err)
		}
		if st.Mode() != want {
			t.Errorf("%q has mode %v, want %v", name, st.Mode(), want)
		}
	}
	first, _ := readSmall(filepath.Join(dir.API(), tokenFile))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(dir.API()); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	again := NewServer(Config{Dir: dir.API()}, NewMux())
	if err := again.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if second, _ := readSmall(filepath.Join(dir.API(), tokenFile)); second == first || len(second) != 64 {
		t.Errorf("token %q after %q: not fresh", second, first)
	}
}

func TestAddressMustBeLoopback(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]Kind{"0.0.0.0:0": Denied, ":0": Denied, "192.0.2.1:80": Denied, "example.org:80": Denied,
		"127.0.0.1": Invalid, "127.0.0.1:70000": Invalid} {
		s := NewServer(Config{Dir: t.TempDir(), Addr: addr}, NewMux())
		err := s.Start(t.Context())
		if err == nil {
			s.Close()
		}
		if e := From(err); e == nil || (e.Kind != want) || e.Hint == "" {
			t.Errorf("%s: %#v, want %v with a hint", addr, e, want)
		}
	}
}

func TestDeadDaemon(t *testing.T) {
	t.Parallel()
	dir := home.Dir(t.TempDir())
	wantDown := func(name string) {
		t.Helper()
		_, err := Dial(dir)
		if e := From(err); e == nil || e.Kind != NotRunning || e.Kind.ExitCode() != 3 || e.Hint == "" {
			t.Errorf("%s: %#v", name, e)
		}
	}
	wantDown("never ran")

	// A crash leaves the files, and a stranger takes the port.
	stranger, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	os.MkdirAll(dir.API(), 0o700)
	os.WriteFile(filepath.Join(dir.API(), addressFile), []byte(stranger.Addr().String()), 0o600)
	os.WriteFile(filepath.Join(dir.API(), tokenFile), []byte("secret"), 0o600)
	wantDown("crashed")

	lock, err := dir.Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	os.Remove(filepath.Join(dir.API(), addressFile))
	wantDown("starting")
}
