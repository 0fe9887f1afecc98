//go:build linux

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/node/home"
	"github.com/weftmesh/weft/node/host"
	"github.com/weftmesh/weft/node/sessions"
	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/protocols/offer"
	"github.com/weftmesh/weft/protocols/session"
	"github.com/weftmesh/weft/store"
	"github.com/weftmesh/weft/test/e2e/world"
	"github.com/weftmesh/weft/workspace/grant"
	"github.com/weftmesh/weft/workspace/provider"
)

// near is a provider's node in this process: the parts of a daemon that a call
// passes, put together as node/sessions does, so that Call can be called
// without the loopback API in between.
type near struct {
	key    *identity.Key
	db     *store.DB
	host   *host.Host
	offers chan []byte

	ctx context.Context
	end context.CancelFunc
	wg  sync.WaitGroup
}

// newNear makes a provider with its store in dir. Behind a relay it takes no
// other path.
func newNear(tb testing.TB, dir, listen string, relay []string) *near {
	tb.Helper()
	n := &near{key: identity.Generate(), offers: make(chan []byte, 1)}
	n.ctx, n.end = context.WithCancel(context.Background())
	log := slog.New(slog.DiscardHandler)
	var err error
	if n.db, err = store.Open(store.Options{Dir: filepath.Join(dir, "store"), Log: log}); err != nil {
		tb.Fatal(err)
	}
	cfg := host.Config{Key: n.key, Listen: []string{listen}, Bootstrap: relay, Log: log}
	if relay != nil {
		cfg.Hide = func() bool { return true }
		cfg.Allow = func(p identity.PublicKey, addr string, _ bool) bool {
			return strings.Contains(addr, "/p2p-circuit") || strings.Contains(relay[0], string(p.PeerID()))
		}
	}
	if n.host, err = host.New(cfg); err != nil {
		tb.Fatal(err)
	}
	n.host.Handle(offer.Protocol, func(_ context.Context, _ identity.PublicKey, st host.Stream, _ host.Path) {
		offer.Serve(st, func(raw []byte) offer.Reply {
			select {
			case n.offers <- raw:
				return offer.Reply{Outcome: offer.Received}
			default:
				return offer.Reply{Outcome: offer.Busy}
			}
		})
	})
	if err := n.host.Start(n.ctx); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		n.end()
		n.wg.Wait()
		if err := errors.Join(n.host.Close(), n.db.Close()); err != nil {
			tb.Errorf("close a provider: %v", err)
		}
	})
	return n
}

// weft is a session of a provider in this process with a daemon.
type weft struct {
	*provider.Session
	req  *world.Node
	dir  string
	made atomic.Uint64 // calls
	path host.Path
}

// terms are what a benchmark's session grants: no budget that it could reach.
func terms(dir, with string, run ...string) sessions.ShareRequest {
	return sessions.ShareRequest{
		Roots: []sessions.ShareRoot{{Name: "work", Dir: dir}}, With: with, Write: true, Run: run,
		Seconds: 6 * 3600, Calls: 10_000_000, ReadBytes: 1 << 40, WriteBytes: 1 << 40, Rate: 10_000_000,
	}
}

// share makes an offer at a requester's daemon.
func share(tb testing.TB, req *world.Node, in sessions.ShareRequest) sessions.Shared {
	tb.Helper()
	c := daemon(tb, req)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), world.Patience)
	defer cancel()
	var out sessions.Shared
	if err := c.Post(ctx, "/v1/share", in, &out); err != nil {
		tb.Fatalf("share: %v", err)
	}
	return out
}

func daemon(tb testing.TB, n *world.Node) *api.Client {
	tb.Helper()
	c, err := api.Dial(home.Dir(n.Home))
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// open makes a session between a daemon and this provider over the path that
// is wanted, and keeps a stream under it.
func (n *near) open(tb testing.TB, req *world.Node, dir string, want host.Path, run ...string) *weft {
	tb.Helper()
	shared := share(tb, req, terms(dir, string(n.key.Public().PeerID()), run...))
	s, err := provider.Accept(n.ctx, provider.Config{DB: n.db, Key: n.key, Log: slog.New(slog.DiscardHandler), Now: time.Now}, n.offer(tb, shared.SessionID))
	if err != nil {
		tb.Fatal(err)
	}
	w := &weft{Session: s, req: req, dir: dir}
	s.Start()
	st, path, err := n.host.Open(n.ctx, s.Grant().Requester, session.Protocol)
	if err != nil {
		tb.Fatalf("reach %s: %v", req.Name, err)
	}
	if w.path = path; path != want {
		tb.Fatalf("%s is connected by %q, want %q", req.Name, path, want)
	}
	// Only one stream: a session that lost it would not be the one measured.
	var ended atomic.Pointer[string]
	n.wg.Go(func() {
		why := s.Channel().Dial(n.ctx, st).Error()
		ended.Store(&why)
	})
	tb.Cleanup(func() {
		if why := ended.Load(); why != nil {
			tb.Errorf("the stream to %s ended under way: %s", req.Name, *why)
		}
		checkLog(tb, req, s.ID(), w.made.Load())
		s.Close()
	})
	world.Until(tb, world.Patience, "session opens", func() string {
		if !s.Channel().State().Attached || s.State() != "open" {
			return string(s.State())
		}
		return ""
	})
	return w
}

// offer waits for the grant of a session. An offer comes again until its
// requester has the answer, so others may lie before it.
func (n *near) offer(tb testing.TB, session string) []byte {
	tb.Helper()
	late := time.After(world.Patience)
	for {
		select {
		case raw := <-n.offers:
			g, _, err := grant.Read(raw)
			if err != nil {
				tb.Fatal(err)
			}
			if g.Session == session {
				return raw
			}
		case <-late:
			tb.Fatalf("no offer of session %s", session)
		}
	}
}

// call makes one call of the session.
func (w *weft) call(ctx context.Context, tool string, args []byte) (answer, error) {
	w.made.Add(1)
	r, err := w.Call(ctx, tool, args, nil, nil)
	if err != nil {
		return answer{}, err
	}
	return split(r.Verdict == "ok", r.Body)
}

// split takes the header line off a result.
func split(ok bool, text []byte) (answer, error) {
	head, body, _ := bytes.Cut(text, []byte("\n"))
	if !ok {
		return answer{}, fmt.Errorf("%.300q", text)
	}
	return answer{head, body}, nil
}

// loopback addresses of a listener on a free port.
const (
	onQUIC = "/ip4/127.0.0.1/udp/0/quic-v1"
	onTCP  = "/ip4/127.0.0.1/tcp/0"
)

// meet tells a daemon where a provider is, so that it is no stranger.
func (n *near) meet(tb testing.TB, req *world.Node) {
	tb.Helper()
	world.Until(tb, world.Patience, "the provider has an address", func() string {
		if len(n.host.Addrs()) == 0 {
			return "none yet"
		}
		return ""
	})
	addrs := n.host.Addrs()
	if i := slices.IndexFunc(addrs, func(a string) bool { return strings.Contains(a, "127.0.0.1") }); i > 0 {
		addrs[0] = addrs[i]
	}
	req.Run(tb, "peer", "add", addrs[0]).OK(tb)
}
