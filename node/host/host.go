package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/event"
	libp2phost "github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	basichost "github.com/libp2p/go-libp2p/p2p/host/basic"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/libp2p/go-libp2p/p2p/protocol/holepunch"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/weftmesh/weft/discovery/lan"
	"github.com/weftmesh/weft/protocols"
	"github.com/weftmesh/weft/protocols/identity"
)

// closeWait bounds how long Close waits for handlers that ignore their
// context.
const closeWait = 10 * time.Second

// Host is one node on the network. Its methods are safe for concurrent use.
type Host struct {
	cfg      Config
	log      *slog.Logger
	self     identity.PublicKey
	id       peer.ID
	limits   limits
	table    map[string]protocols.Protocol
	p2p      libp2phost.Host
	swarm    *swarm.Swarm
	observed basichost.ObservedAddrsManager
	admits   *admission
	circuit  atomic.Pointer[[]ma.Multiaddr] // our addresses through relays

	life  context.Context // ends in Close
	end   context.CancelFunc
	tasks sync.WaitGroup // everything started by spawn

	upgrades  chan struct{} // semaphore of direct-dial attempts
	direct    directDials
	punchSeen atomic.Bool // the hole puncher was ready at the last look

	mu       sync.Mutex // guards below; never held across I/O or a libp2p call
	started  bool
	closed   bool
	handlers map[string]bool
	peers    map[peer.ID]*peerState
	wanted   map[peer.ID]*wanted
	given    map[peer.ID][]ma.Multiaddr // addresses from the owner
	subs     map[*subscriber]struct{}

	lan *lan.Service

	// set by Start before anything runs, ended by Close
	relay   *relayService
	punch   *punch
	emitter event.Emitter
}

// New builds a host that neither listens nor dials yet. Register handlers
// with Handle, then call Start.
func New(cfg Config) (*Host, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	routeLibp2pLog(cfg.Log)
	h := &Host{
		cfg: cfg, log: cfg.Log, self: cfg.Key.Public(), id: libp2pID(cfg.Key.Public()),
		limits: profiles[cfg.Profile], table: map[string]protocols.Protocol{},
		upgrades: make(chan struct{}, maxUpgrades),
		handlers: map[string]bool{}, peers: map[peer.ID]*peerState{}, wanted: map[peer.ID]*wanted{},
		given: map[peer.ID][]ma.Multiaddr{}, subs: map[*subscriber]struct{}{},
	}
	for _, p := range cfg.Protocols {
		h.table[p.ID] = p
	}
	h.admits = newAdmission(cfg.Protocols)
	h.life, h.end = context.WithCancel(context.Background())
	boots, err := parseBootstrap(cfg.Bootstrap, h.id)
	if err != nil {
		return nil, err
	}
	if err := h.build(); err != nil {
		h.end()
		return nil, fmt.Errorf("build libp2p host: %w", err)
	}
	for _, b := range boots {
		h.given[b.ID] = b.Addrs
		h.wanted[b.ID] = newWanted(b.ID, true)
	}
	return h, nil
}

// Start listens on every address, starts the roles that Config asks for and
// begins to dial the wanted peers. It returns when the addresses are up.
func (h *Host) Start(ctx context.Context) error {
	h.mu.Lock()
	if h.started || h.closed {
		h.mu.Unlock()
		return errors.New("host was started before; make a new one")
	}
	h.started = true
	h.mu.Unlock()
	if err := h.start(ctx); err != nil {
		return errors.Join(err, h.Close())
	}
	return nil
}

func (h *Host) start(ctx context.Context) error {
	if err := h.watchLinks(); err != nil {
		return err
	}
	// Before listening, so that the first peer's identify sees the roles.
	if h.cfg.Relay {
		r, err := newRelayService(h)
		if err != nil {
			return fmt.Errorf("start relay service: %w", err)
		}
		h.relay = r
	}
	if err := h.listen(ctx); err != nil {
		return err
	}
	if err := h.startPunch(); err != nil {
		return fmt.Errorf("start hole punching: %w", err)
	}
	if err := h.watchNetwork(); err != nil {
		return err
	}
	if h.cfg.MDNS {
		h.startLAN()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.wanted {
		h.runWanted(w)
	}
	return nil
}

// Close ends every connection and waits for all goroutines, including
// handlers, which see their context end. It may be called more than once.
func (h *Host) Close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	h.closed = true
	l := h.lan
	h.mu.Unlock()
	h.end()
	h.direct.stop()
	var errs []error
	if l != nil {
		errs = append(errs, l.Close())
	}
	if h.punch != nil {
		errs = append(errs, h.punch.Close())
	}
	if h.relay != nil {
		errs = append(errs, h.relay.Close())
	}
	if h.emitter != nil {
		errs = append(errs, h.emitter.Close())
	}
	errs = append(errs, h.p2p.Close())
	done := make(chan struct{})
	go func() { h.tasks.Wait(); close(done) }() // ends with the last task
	select {
	case <-done:
	case <-time.After(closeWait):
		errs = append(errs, fmt.Errorf("some stream handlers still run %v after their context ended", closeWait))
	}
	return errors.Join(errs...)
}

// spawn runs fn as a task that Close waits for; false if the host is closed.
func (h *Host) spawn(fn func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.spawnLocked(fn)
}

func (h *Host) spawnLocked(fn func()) bool {
	if h.closed {
		return false
	}
	h.tasks.Go(fn)
	return true
}

// punch is libp2p's hole puncher. We hold it ourselves, since libp2p punches
// only once for each relayed connection and we try again.
type punch = holepunch.Service
