package sessions

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/weftmesh/weft/node/host"
	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/protocols/offer"
	"github.com/weftmesh/weft/protocols/session"
	"github.com/weftmesh/weft/store"
	"github.com/weftmesh/weft/workspace/provider"
	"github.com/weftmesh/weft/workspace/requester"
)

// Config is what the desk stands on. All fields are required.
type Config struct {
	DB   *store.DB
	Key  *identity.Key
	Host *host.Host
	Log  *slog.Logger
	// Home is the node's directory, which is never shared.
	Home string
	// StateDir keeps build caches and command logs of sessions.
	StateDir string
	// Resolve finds the peer that a person means.
	Resolve func(spec string) (identity.PublicKey, error)
	// Name is what a person calls a peer, or "".
	Name func(identity.PublicKey) string
	// Known says whether the person added the peer.
	Known   func(identity.PublicKey) bool
	Version string
	Now     func() time.Time
}

// Desk holds the live sessions of a node. Make it with New, run it with
// Start, end it with Close.
type Desk struct {
	cfg Config
	ctx context.Context // ends in Close
	end context.CancelFunc
	wg  sync.WaitGroup

	// nudge wakes every loop that waits for a path; closed and renewed by each
	// change of connectedness.
	nudgeMu sync.Mutex
	nudge   chan struct{}

	mu        sync.Mutex // guards below
	closed    bool
	requested map[string]*requesting
	provided  map[string]*providing
	kept      map[identity.PublicKey]int
}

// requesting is a live session of ours.
type requesting struct {
	*requester.Session
	path  host.Path // of the newest stream; guarded by Desk.mu
	noted host.Path // as the log has it; guarded by Desk.mu
}

// providing is a live session that we work in.
type providing struct {
	*provider.Session
	agents *agents
	path   host.Path // guarded by Desk.mu
}

// Close ends the work in the session on this node, and then the agents'
// connections to it.
func (p *providing) Close() error {
	err := p.Session.Close()
	p.agents.close()
	return err
}

// New makes a desk and registers its protocols with the host.
func New(cfg Config) *Desk {
	ctx, end := context.WithCancel(context.Background())
	d := &Desk{
		cfg: cfg, ctx: ctx, end: end, nudge: make(chan struct{}),
		requested: map[string]*requesting{}, provided: map[string]*providing{}, kept: map[identity.PublicKey]int{},
	}
	cfg.Host.Handle(offer.Protocol, d.serveOffer)
	cfg.Host.Handle(session.Protocol, d.serveSession)
	return d
}

// Start opens every session that is not settled and lets it go on.
func (d *Desk) Start(ctx context.Context) error {
	mine, err := requester.List(d.cfg.DB)
	if err != nil {
		return fmt.Errorf("read sessions: %w", err)
	}
	for _, b := range mine {
		if b.Settled {
			continue
		}
		s, err := requester.Load(ctx, d.requesterConfig(), b.ID)
		if err != nil { // one broken session must not stop the node
			d.cfg.Log.Error("a session can't go on; see weft session show", "session", b.ID, "err", err)
			continue
		}
		d.request(s)
	}
	theirs, err := provider.List(d.cfg.DB)
	if err != nil {
		return fmt.Errorf("read sessions: %w", err)
	}
	for _, b := range theirs {
		if b.Settled {
			continue
		}
		s, err := provider.Load(d.providerConfig(), b.ID)
		if err != nil {
			d.cfg.Log.Error("a session can't go on; see weft session show", "session", b.ID, "err", err)
			continue
		}
		d.provide(s)
	}
	d.wg.Go(d.watchPaths)
	return nil
}

// Close stops the sessions' work on this node. They go on after a restart.
func (d *Desk) Close() error {
	d.end()
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	mine, theirs := d.requested, d.provided
	d.requested, d.provided = map[string]*requesting{}, map[string]*providing{}
	d.mu.Unlock()
	var closing sync.WaitGroup
	for _, s := range mine {
		closing.Go(func() { s.Close() })
	}
	for _, s := range theirs {
		closing.Go(func() { s.Close() })
	}
	closing.Wait()
	d.wg.Wait()
	return nil
}

func (d *Desk) requesterConfig() requester.Config {
	return requester.Config{DB: d.cfg.DB, Key: d.cfg.Key, Log: d.cfg.Log, Home: d.cfg.Home, StateDir: d.cfg.StateDir, Now: d.cfg.Now}
}

func (d *Desk) providerConfig() provider.Config {
	return provider.Config{DB: d.cfg.DB, Key: d.cfg.Key, Log: d.cfg.Log, Now: d.cfg.Now}
}

// request makes a session of ours live. It leaves the desk when nothing is
// left to exchange.
func (d *Desk) request(s *requester.Session) {
	r := &requesting{Session: s}
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		s.Close()
		return
	}
	d.requested[s.ID()] = r
	d.mu.Unlock()
	d.keep(s.Grant().Provider)
	s.Start()
	d.wg.Go(func() {
		d.deliverOffer(s)
		d.untilSettled(s)
		d.drop(s.Grant().Provider)
	})
}

// provide makes a session that we work in live.
func (d *Desk) provide(s *provider.Session) *providing {
	p := &providing{Session: s, agents: newAgents(s, d.cfg.Version)}
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		p.Close()
		return p
	}
	d.provided[s.ID()] = p
	d.mu.Unlock()
	d.keep(s.Grant().Requester)
	s.Start()
	d.wg.Go(func() {
		d.dial(p)
		d.drop(s.Grant().Requester)
	})
	return p
}

// keep counts the sessions that want a peer connected.
func (d *Desk) keep(p identity.PublicKey) {
	d.mu.Lock()
	d.kept[p]++
	first := d.kept[p] == 1
	d.mu.Unlock()
	if first {
		d.cfg.Host.Keep(p)
	}
}

func (d *Desk) drop(p identity.PublicKey) {
	d.mu.Lock()
	d.kept[p]--
	last := d.kept[p] == 0
	if last {
		delete(d.kept, p)
	}
	d.mu.Unlock()
	if last && !d.cfg.Known(p) {
		d.cfg.Host.Drop(p)
	}
}

// watchPaths wakes the loops on each change of connectedness.
func (d *Desk) watchPaths() {
	for range d.cfg.Host.Subscribe(d.ctx) {
		d.nudgeMu.Lock()
		close(d.nudge)
		d.nudge = make(chan struct{})
		d.nudgeMu.Unlock()
	}
}

// nudged is closed by the next change of connectedness.
func (d *Desk) nudged() <-chan struct{} {
	d.nudgeMu.Lock()
	defer d.nudgeMu.Unlock()
	return d.nudge
}

// wait pauses a loop until something changes or the time is up; false when
// the desk closes.
func (d *Desk) wait(nudged <-chan struct{}, most time.Duration) bool {
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-d.ctx.Done():
		return false
	case <-nudged:
	case <-t.C:
	}
	return d.ctx.Err() == nil
}
