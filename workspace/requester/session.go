package requester

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/protocols/session"
	"github.com/weftmesh/weft/protocols/signed"
	"github.com/weftmesh/weft/store"
	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/command"
	"github.com/weftmesh/weft/workspace/gate"
	"github.com/weftmesh/weft/workspace/grant"
	"github.com/weftmesh/weft/workspace/redact"
	"github.com/weftmesh/weft/workspace/sessionlog"
	"github.com/weftmesh/weft/workspace/tool"
)

// Config is what a session stands on. All fields are required.
type Config struct {
	DB  *store.DB
	Key *identity.Key
	Log *slog.Logger
	// Home is the node's directory, which no root may hold or lie in.
	Home string
	// StateDir keeps build caches and command logs, outside every root.
	StateDir string
	Now      func() time.Time
}

// Session is one session on the requester's side. The node makes it, feeds
// its Channel with streams, and closes it.
type Session struct {
	cfg     Config
	grant   grant.Grant
	doc     *signed.Document
	id      string
	logKey  sessionlog.Key
	sub     *identity.Key // signs checkpoints
	cert    sessionlog.KeyCert
	open    atomic.Pointer[folders] // see folders
	secrets atomic.Pointer[redact.Set]
	log     *sessionlog.Log
	meter   *gate.Meter
	ch      *session.Channel
	memory  memory // answers of calls that changed nothing
	hub     hub
	slots   chan struct{}

	ctx    context.Context // ends in Close; the parent of every call
	cancel context.CancelFunc
	wg     sync.WaitGroup

	sendMu sync.Mutex // orders what leaves with a head; guards below
	joined bool       // the provider told us what it has
	cursor uint64     // log records up to here are on their way

	openMu sync.Mutex // one openFolders at a time

	mu       sync.Mutex // guards below; never held across I/O
	st       stored
	closed   bool          // Close has begun: no new goroutine
	resumed  chan struct{} // closed when calls may go on
	refused  int           // refusals since the last resume
	inflight int           // calls between admission and answer
	sealed   bool          // the log takes no more calls
	idle     chan struct{} // closed when the last call in flight is answered
	numbers  window
	hands    map[string]*hand // calls being handled, by id
	kept     []uint64         // intents whose answers are stored, oldest first
	lastNote uint64           // log size of the last checkpoint that was sent
	noteAt   time.Time        // when it was sent
	unsigned unsigned         // a checkpoint that waits for its cosignature
	over     chan struct{}
	changed  chan struct{} // closed and renewed when the session is stored

	ends      time.Time     // of the grant, on the monotonic clock
	garbage   *rate.Limiter // of messages that are no calls; owned by receive
	notes     atomic.Bool   // a checkpoint is being sent
	persistMu sync.Mutex    // stored snapshots stay in order; never held with mu
	receiptMu sync.Mutex    // one receipt at a time
	secretsMu sync.Mutex    // guards below
	learnt    time.Time     // when the secrets were read last
	learning  time.Duration // and how long that took
}

// hand is a call from admission to answer. Cancel, stop and the call's own
// deadline end its context, whatever it waits for.
type hand struct {
	digest string
	ctx    context.Context
	cancel context.CancelFunc
	sent   bool // its answer is on its way; guarded by Session.mu
	again  bool // it came again after that; guarded by Session.mu
}

// unsigned is the oldest checkpoint that the provider has not signed.
type unsigned struct {
	size  uint64
	since time.Time
}

// Errors that callers tell apart.
var (
	// ErrOver says that the session has ended.
	ErrOver = errors.New("the session is over")
	// ErrState says that the session is not in the state that this needs.
	ErrState = errors.New("the session's state doesn't allow this")
)

// Offer makes a new session from a grant that this node signed, and keeps it.
// Nothing runs before Start.
func Offer(ctx context.Context, cfg Config, doc *signed.Document, dirs map[string]string) (*Session, error) {
	g, _, err := grant.Read(doc.Raw())
	if err != nil {
		return nil, err
	}
	st := stored{
		Grant: doc.Raw(), Dirs: dirs, State: gate.Offered, LogKey: sessionlog.NewKey().Hex(),
		Tools: tool.Digest(tool.For(g.Rights())), Sandbox: sandboxWord(g), Opened: cfg.Now().UnixMilli(),
	}
	s, err := build(cfg, st)
	if err != nil {
		return nil, err
	}
	if err := s.openFolders(); err != nil {
		s.release()
		return nil, err
	}
	if err := s.persist(ctx); err != nil {
		s.release()
		return nil, err
	}
	opened := s.record(sessionlog.Opened, st.Sandbox)
	opened.Grant = grant.Digest(doc)
	if _, err := s.log.Append(ctx, []sessionlog.Record{opened}, nil); err != nil {
		s.release()
		return nil, err
	}
	return s, nil
}

// Load opens a kept session again after a restart.
func Load(ctx context.Context, cfg Config, id string) (*Session, error) {
	var st stored
	err := cfg.DB.View(func(tx *store.Tx) (err error) {
		st, err = sessions.Get(tx, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("session %s: %w", id, err)
	}
	s, err := build(cfg, st)
	if err != nil {
		return nil, err
	}
	if err := s.recover(ctx); err != nil {
		s.release()
		return nil, err
	}
	if s.st.State.Over() {
		return s, nil
	}
	if err := s.openFolders(); err != nil { // it can still be stopped, expire and be proved
		cfg.Log.Warn("a session waits for its folders; put them back, then weft resume", "session", id, "err", err)
		s.mu.Lock()
		s.st.State, s.st.Reason = gate.Paused, "a shared folder can't be opened: "+err.Error()
		s.resumed = make(chan struct{}) // it was open: calls wait again
		s.mu.Unlock()
	}
	return s, nil
}

// build makes a session without its folders.
func build(cfg Config, st stored) (*Session, error) {
	g, doc, err := grant.Read(st.Grant)
	if err != nil {
		return nil, fmt.Errorf("stored grant: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Session{
		cfg: cfg, grant: g, doc: doc, id: g.Session, st: st, ctx: ctx, cancel: cancel,
		hands: map[string]*hand{}, garbage: rate.NewLimiter(1, gate.PauseAfter),
		slots: make(chan struct{}, maxRunning), over: make(chan struct{}), resumed: make(chan struct{}), changed: make(chan struct{}),
	}
	if s.logKey, err = sessionlog.ParseKey(st.LogKey); err != nil {
		return nil, fmt.Errorf("stored log key: %w", err)
	}
	if s.sub, s.cert, err = sessionlog.Certify(cfg.Key, s.id, sessionlog.RoleRequester); err != nil {
		return nil, err
	}
	if s.log, err = sessionlog.Open(cfg.DB, s.id); err != nil {
		return nil, fmt.Errorf("session log: %w", err)
	}
	s.meter = gate.NewMeter(s.budget(), used(s.log.Totals()))
	s.ends = deadline(g, st.Seen, cfg.Now())
	if st.State.Over() {
		close(s.over)
		s.sealed = true
	}
	if st.State == gate.Open {
		close(s.resumed)
	}
	s.ch = session.New(session.Config{Role: session.Requester, Session: s.id, Grant: doc.Digest(), Self: cfg.Key, Peer: g.Provider, Log: cfg.Log})
	return s, nil
}

func (s *Session) budget() gate.Budget {
	l := s.grant.Limits
	return gate.Budget{Calls: l.Calls, ReadBytes: l.ReadBytes, WriteBytes: l.WriteBytes, Rate: l.Rate}
}

// deadline is when the grant ends, on the clock that nobody sets: what is left
// of it now, by the wall clock, from now on by the monotonic one. A wall clock
// that was set back while the node was down gains nothing: seen is the latest
// time that was stored, in unix milliseconds.
func deadline(g grant.Grant, seen int64, now time.Time) time.Time {
	wall := max(now.UnixMilli(), seen)
	return now.Add(time.Duration(g.Expires-wall) * time.Millisecond)
}

// Start lets calls run: it reads the channel until Close.
func (s *Session) Start() {
	s.goes(s.receive)
	s.goes(s.tick)
}

// goes runs fn on a goroutine that Close waits for; false once Close began.
func (s *Session) goes(fn func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Go(fn)
	return true
}

// Close ends the session's work on this node without ending the session: it
// goes on after a restart. Commands are killed, calls that run get their
// result recorded if they end in time.
func (s *Session) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	err := s.ch.Close()
	s.wg.Wait()
	s.release()
	return err
}

func (s *Session) release() {
	s.cancel()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.folders().close()
}

// persist stores the session record. Snapshots are taken and stored one at a
// time, so that none overwrites a newer one.
func (s *Session) persist(ctx context.Context) error {
	s.persistMu.Lock()
	defer s.persistMu.Unlock()
	s.mu.Lock()
	s.st.Seen = max(s.st.Seen, s.cfg.Now().UnixMilli())
	st := s.st
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	return s.cfg.DB.Update(ctx, func(tx *store.Tx) error { return sessions.Put(tx, s.id, st) })
}

// Changed is closed when the session's state or receipt changes next.
func (s *Session) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// used reads the budget's counters back from the log.
func used(t sessionlog.Totals) gate.Used {
	u := gate.Used{Calls: int64(t.Calls), ReadBytes: t.BytesRead, WriteBytes: t.BytesWritten}
	for _, byVerdict := range t.Counts {
		u.Refused += int64(byVerdict[sessionlog.Denied])
	}
	u.Allowed = u.Calls - u.Refused
	return u
}

// record starts a record.
func (s *Session) record(typ sessionlog.Type, note string) sessionlog.Record {
	return sessionlog.Record{Type: typ, Time: s.cfg.Now().UnixMilli(), Note: note}
}

// ID is the session id.
func (s *Session) ID() string { return s.id }

// Grant is what was granted.
func (s *Session) Grant() grant.Grant { return s.grant }

// Channel is where the node attaches streams.
func (s *Session) Channel() *session.Channel { return s.ch }

// state returns the present state.
func (s *Session) state() gate.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.st.State
}

// expired is by the requester's clock, where the effects are.
func (s *Session) expired() bool { return !s.cfg.Now().Before(s.ends) }

// sandboxWord says in the log and the receipt how commands are confined.
func sandboxWord(g grant.Grant) string {
	switch p := command.Probe(); {
	case !g.Rights().Has(workspace.Exec):
		return "none needed"
	case p.Available:
		return p.Kind
	case g.Unsandboxed:
		return "unsandboxed"
	default:
		return "unavailable"
	}
}
