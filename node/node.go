package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/node/home"
	"github.com/weftmesh/weft/node/host"
	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/store"
)

// Config configures a Node. Home is required; the zero value of every other
// field works.
type Config struct {
	// Home is the node's directory. It is made, owner-only, if it isn't there.
	Home home.Dir
	// Listen holds multiaddrs to listen on. Empty means QUIC and TCP on every
	// interface, on ports that the system chooses.
	Listen []string
	// Bootstrap holds multiaddrs with /p2p/ID of peers to stay connected to;
	// those that offer a relay are used as one.
	Bootstrap []string
	// Relay serves as a relay for others.
	Relay bool
	// RelayOnly starts with direct connections off, but to Bootstrap peers;
	// see POST /v1/relay-only.
	RelayOnly bool
	// NoMDNS neither announces nor looks for peers on the local network.
	NoMDNS bool
	// API is the loopback address of the API. Empty means 127.0.0.1 and a free
	// port.
	API string
	// Profile is laptop (default), server or relay.
	Profile string
	// Log gets what happens. Nil discards it.
	Log *slog.Logger
}

// Node is a running daemon. New makes it, Start runs it, Close ends it.
type Node struct {
	cfg     Config
	log     *slog.Logger
	started time.Time

	key     *identity.Key
	db      *store.DB
	host    *host.Host
	book    *Book
	api     *api.Server
	metrics *prometheus.Registry
	parts   []component

	relayOnly *relayOnly

	closing sync.Once
	closers []closer // in the order of opening; Close goes backwards
	err     error    // of Close
}

type closer struct {
	what  string
	close func() error
}

// New returns a node that Start runs.
func New(cfg Config) *Node {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Node{cfg: cfg, log: cfg.Log}
}

// Start brings everything up and returns when the node is ready; ctx bounds
// the start only. After an error nothing is left running. A home on which
// another node runs gives an api.Conflict error that names the process.
func (n *Node) Start(ctx context.Context) (err error) {
	n.started = time.Now()
	defer func() {
		if err != nil {
			n.Close()
		}
	}()

	// The home is ours alone from here on.
	lock, err := n.cfg.Home.Lock()
	if err != nil {
		return lockError(err)
	}
	n.onClose("lock", lock.Close)
	n.metrics = newRegistry(n)

	// Who we are, and what we know.
	if n.key, err = identity.LoadOrCreate(n.cfg.Home.Key()); err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	if n.db, err = store.Open(store.Options{Dir: n.cfg.Home.Store(), Log: n.log.With("part", "store")}); err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	n.onClose("store", n.db.Close)
	if n.book, err = openBook(n.db, n.key.Public()); err != nil {
		return fmt.Errorf("read contacts: %w", err)
	}

	n.relayOnly = &relayOnly{relays: bootstrapIDs(n.cfg.Bootstrap)}
	n.relayOnly.on.Store(n.cfg.RelayOnly)

	// How others reach us. Nothing listens or dials before host.Start.
	n.host, err = host.New(host.Config{
		Key:        n.key,
		Listen:     n.cfg.Listen,
		Relay:      n.cfg.Relay,
		Bootstrap:  n.cfg.Bootstrap,
		MDNS:       !n.cfg.NoMDNS,
		Profile:    n.cfg.Profile,
		Agent:      "weft/" + BuildInfo().Version,
		Log:        n.log.With("part", "host"),
		Saved:      n.book,
		Known:      n.book.Known,
		Allow:      n.relayOnly.allow,
		Hide:       n.relayOnly.on.Load,
		Registerer: n.metrics,
	})
	if err != nil {
		return err
	}
	n.onClose("host", n.host.Close)

	// What runs on it. Components are ready before the host meets anybody.
	mux := api.NewMux()
	n.routes(mux)
	if n.parts, err = n.components(); err != nil {
		return err
	}
	if err := n.startParts(ctx, mux); err != nil {
		return err
	}
	for _, c := range n.book.wanted() {
		if err := n.host.Add(c.ID, c.Addrs); err != nil {
			n.log.Warn("an address of a contact can't be used", "peer", string(c.ID.PeerID()), "err", err)
		}
		n.host.Keep(c.ID)
	}
	if err := n.host.Start(ctx); err != nil {
		return err
	}

	// The API comes last: whoever finds it finds everything running.
	n.api = api.NewServer(api.Config{Dir: n.cfg.Home.API(), Addr: n.cfg.API,
		Log: n.log.With("part", "api"), Registerer: n.metrics}, mux)
	n.onClose("api", n.api.Close)
	if err := n.api.Start(ctx); err != nil {
		return err
	}
	n.log.Info("ready", "peer", string(n.key.Public().PeerID()), "api", n.api.URL(), "took", time.Since(n.started).Round(time.Millisecond))
	return nil
}

// startParts gives the components their routes and starts them in order.
func (n *Node) startParts(ctx context.Context, mux *api.Mux) error {
	for _, c := range n.parts {
		c.Routes(mux)
		n.onClose(fmt.Sprintf("component %T", c), c.Close)
		if err := c.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Close stops everything in the reverse order of Start and returns when it has
// ended. It is idempotent, and safe after a failed Start.
func (n *Node) Close() error {
	n.closing.Do(func() {
		var errs []error
		for i := len(n.closers) - 1; i >= 0; i-- {
			if err := n.closers[i].close(); err != nil {
				errs = append(errs, fmt.Errorf("close %s: %w", n.closers[i].what, err))
			}
		}
		n.err = errors.Join(errs...)
	})
	return n.err
}

func (n *Node) onClose(what string, f func() error) {
	n.closers = append(n.closers, closer{what, f})
}

// Ready is the event that tells a script that the node is up.
type Ready struct {
	Event   string   `json:"event"` // "ready"
	PeerID  string   `json:"peerId"`
	AgentID string   `json:"agentId"`
	Addrs   []string `json:"addrs"`
	API     string   `json:"api"`
	Version string   `json:"version"`
}

// Ready describes the started node.
func (n *Node) Ready() Ready {
	p := n.key.Public()
	return Ready{Event: "ready", PeerID: string(p.PeerID()), AgentID: string(p.AgentID()),
		Addrs: list(n.host.Addrs()), API: n.api.URL(), Version: BuildInfo().Version}
}

// lockError names the running process, the way the command contract wants it.
func lockError(err error) error {
	var running *home.RunningError
	if errors.As(err, &running) {
		return api.Errorf(api.Conflict, "%v", running).WithCode("already_running").
			Try("use that one (weft status), or give another home with --home")
	}
	return fmt.Errorf("home: %w", err)
}

// list makes sure that JSON says [] and not null.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
