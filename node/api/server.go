package api

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Limits and waits of the server.
const (
	maxConns   = 512      // a local stranger can't use up our descriptors
	maxHeaders = 16 << 10 // ours are under 1 KiB
	headerWait = 10 * time.Second
	idleWait   = 2 * time.Minute
	// stopGrace is how long requests under way may take to finish at Close.
	// The node promises to stop within 5 s; the store and the host need some
	// of that.
	stopGrace = 2 * time.Second
)

// Names of the files in Config.Dir.
const (
	addressFile = "address"
	tokenFile   = "token"
)

// Config configures a Server.
type Config struct {
	// Dir is where the address and the token are written. It is made
	// owner-only. Required.
	Dir string
	// Addr is the loopback address to listen on. Empty means 127.0.0.1 and a
	// free port.
	Addr string
	// Log gets what the server can't tell a client. Nil discards it.
	Log *slog.Logger
	// Registerer gets the count of requests. Nil counts nothing.
	Registerer prometheus.Registerer
}

// Server serves a Mux on loopback. The node starts and closes it.
type Server struct {
	cfg Config
	mux *Mux

	http     *http.Server
	ln       net.Listener
	handlers sync.WaitGroup // requests under way, taken-over connections too
	loop     sync.WaitGroup // the accept loop
	stop     context.CancelFunc
	abort    context.CancelFunc
	closing  sync.Once
	closeErr error
}

// NewServer returns a server that Start starts.
func NewServer(cfg Config, mux *Mux) *Server {
	if cfg.Addr == "" {
		cfg.Addr = "127.0.0.1:0"
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{cfg: cfg, mux: mux}
}

// stopping is the key of the context that streams watch: it ends when the
// server begins to stop, while requests under way may still finish.
type stopping struct{}

// Start listens, writes the token and the address, and serves until Close.
func (s *Server) Start(ctx context.Context) error {
	if err := checkLoopback(s.cfg.Addr); err != nil {
		return err
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", s.cfg.Addr)
	if err != nil {
		return fmt.Errorf("listen for the API: %w", err)
	}
	token, err := s.publish(ln.Addr().String())
	if err != nil {
		ln.Close()
		return err
	}
	if s.cfg.Registerer != nil {
		if err := s.count(); err != nil {
			ln.Close()
			return err
		}
	}
	// The lifetime is the server's, not the caller's: ctx bounds the start.
	base, abort := context.WithCancel(context.WithoutCancel(ctx))
	streams, stop := context.WithCancel(base)
	s.ln, s.stop, s.abort = ln, stop, abort
	s.http = &http.Server{
		Handler:           s.track(Guard(s.mux, ln.Addr().String(), token)),
		ReadHeaderTimeout: headerWait,
		IdleTimeout:       idleWait,
		MaxHeaderBytes:    maxHeaders,
		BaseContext: func(net.Listener) context.Context {
			return context.WithValue(base, stopping{}, streams)
		},
		ErrorLog: slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
	}
	s.loop.Go(func() {
		if err := s.http.Serve(newLimitListener(ln, maxConns)); !errors.Is(err, http.ErrServerClosed) {
			s.cfg.Log.Error("the API stopped serving", "err", err)
		}
	})
	return nil
}

// URL is where the API is, once started.
func (s *Server) URL() string { return "http://" + s.ln.Addr().String() }

// Close stops the server: streams are told at once, other requests may finish
// for a moment, then connections are cut. It returns when no handler runs any
// more, and is safe to call twice.
func (s *Server) Close() error {
	s.closing.Do(func() {
		if s.http == nil {
			return
		}
		for _, f := range []string{addressFile, tokenFile} {
			os.Remove(filepath.Join(s.cfg.Dir, f))
		}
		s.stop()
		ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
		defer cancel()
		if err := s.http.Shutdown(ctx); err != nil {
			s.abort()
			if err := s.http.Close(); err != nil {
				s.closeErr = fmt.Errorf("close the API: %w", err)
			}
		}
		s.abort()
		s.handlers.Wait()
		s.loop.Wait()
	})
	return s.closeErr
}

// track counts the requests under way, since Shutdown forgets those whose
// connection was taken over.
func (s *Server) track(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.handlers.Add(1)
		defer s.handlers.Done()
		next.ServeHTTP(w, r)
	})
}

// publish writes the token, then the address: whoever reads the address finds
// its token.
func (s *Server) publish(addr string) (token string, err error) {
	if err := os.MkdirAll(s.cfg.Dir, 0o700); err != nil {
		return "", fmt.Errorf("create the API's directory: %w", err)
	}
	if err := os.Chmod(s.cfg.Dir, 0o700); err != nil {
		return "", fmt.Errorf("protect the API's directory: %w", err)
	}
	raw := make([]byte, 32)
	rand.Read(raw)
	token = hex.EncodeToString(raw)
	if err := writeFile(s.cfg.Dir, tokenFile, token); err != nil {
		return "", err
	}
	return token, writeFile(s.cfg.Dir, addressFile, addr)
}

// writeFile replaces a file in one step; it is owner-only from the first.
func writeFile(dir, name, text string) error {
	f, err := os.CreateTemp(dir, "."+name+"-*") // 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	_, err = f.WriteString(text + "\n")
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// count registers the request counter and hooks it into the mux.
func (s *Server) count() error {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weft_api_requests_total",
		Help: "Requests to the loopback API by route and status.",
	}, []string{"route", "status"})
	if err := s.cfg.Registerer.Register(requests); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	s.mux.count = func(route string, status int) {
		requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	}
	return nil
}

// checkLoopback refuses an address that other machines could reach.
func checkLoopback(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return Errorf(Invalid, "API address %q: want host:port", addr).Try("leave --api out, or give 127.0.0.1:PORT")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return Errorf(Invalid, "API address %q: bad port", addr).Try("give a port from 0 to 65535, 0 for a free one")
	}
	if host == "localhost" {
		return nil
	}
	if ip, err := netip.ParseAddr(host); err != nil || !ip.IsLoopback() {
		return Errorf(Denied, "API address %q is not loopback; the API is for this machine only", addr).
			Try("give 127.0.0.1:PORT, and use an SSH tunnel from elsewhere")
	}
	return nil
}
