package provider

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/protocols/session"
	"github.com/weftmesh/weft/protocols/signed"
	"github.com/weftmesh/weft/store"
	"github.com/weftmesh/weft/workspace/gate"
	"github.com/weftmesh/weft/workspace/grant"
	"github.com/weftmesh/weft/workspace/sessionlog"
)

// Config is what a session stands on. All fields are required.
type Config struct {
	DB  *store.DB
	Key *identity.Key
	Log *slog.Logger
	Now func() time.Time
}

// Session is one session on the provider's side. The node makes it, feeds its
// Channel with streams, and closes it.
type Session struct {
	cfg   Config
	grant grant.Grant
	doc   *signed.Document
	id    string
	log   *sessionlog.Log
	sub   *identity.Key // cosigns checkpoints
	cert  sessionlog.KeyCert
	ch    *session.Channel

	ctx    context.Context // ends in Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	longest time.Duration // a call without a deadline waits this long

	sendMu   sync.Mutex // orders call numbers with their sending; guards below
	seq      uint64     // the last call number used
	reserved uint64     // numbers up to here are durably ours

	mu      sync.Mutex // guards below; never held across I/O
	st      stored
	pending map[string]*pending
	left    map[string]opening // of calls given up, until their result comes
	changed chan struct{}      // closed and renewed on each change of state
}

// Accept opens a session from a received grant, and keeps it. It is accepted
// once: ErrTaken if it is kept already. What belongs to the acceptance is done
// by also, in the same transaction.
func Accept(ctx context.Context, cfg Config, raw []byte, also ...func(*store.Tx) error) (*Session, error) {
	g, _, err := grant.Open(raw, cfg.Key.Public(), cfg.Now())
	if err != nil {
		return nil, err
	}
	st := stored{Grant: raw, State: string(gate.Open), Accepted: cfg.Now().UnixMilli()}
	err = cfg.DB.Update(ctx, func(tx *store.Tx) error {
		if taken, err := sessions.Has(tx, g.Session); err != nil {
			return err
		} else if taken {
			return ErrTaken
		}
		for _, fn := range also {
			if err := fn(tx); err != nil {
				return err
			}
		}
		return sessions.Put(tx, g.Session, st)
	})
	if err != nil {
		return nil, fmt.Errorf("keep the session: %w", err)
	}
	return build(cfg, st)
}

// Load opens a kept session again after a restart.
func Load(cfg Config, id string) (*Session, error) {
	var st stored
	err := cfg.DB.View(func(tx *store.Tx) (err error) {
		st, err = sessions.Get(tx, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("session %s: %w", id, err)
	}
	return build(cfg, st)
}

// Brief is a kept session in short.
type Brief struct {
	ID      string
	Grant   grant.Grant
	State   gate.State
	Settled bool
}

// List returns the kept sessions without opening them.
func List(db *store.DB) (all []Brief, err error) {
	err = db.View(func(tx *store.Tx) error {
		return sessions.Each(tx, "", func(key string, st stored) error {
			g, _, err := grant.Read(st.Grant)
			if err != nil {
				return fmt.Errorf("session %s: %w", key, err)
			}
			all = append(all, Brief{ID: key, Grant: g, State: gate.State(st.State), Settled: st.settled() || st.LetGo})
			return nil
		})
	})
	return all, err
}

// Has reports whether a session is kept.
func Has(tx *store.Tx, id string) (bool, error) { return sessions.Has(tx, id) }

func build(cfg Config, st stored) (*Session, error) {
	g, doc, err := grant.Read(st.Grant)
	if err != nil {
		return nil, fmt.Errorf("stored grant: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Session{
		cfg: cfg, grant: g, doc: doc, id: g.Session, st: st, ctx: ctx, cancel: cancel,
		longest: longestWait, seq: st.NextSeq, reserved: st.NextSeq,
		pending: map[string]*pending{}, left: map[string]opening{}, changed: make(chan struct{}),
	}
	if s.sub, s.cert, err = sessionlog.Certify(cfg.Key, s.id, sessionlog.RoleProvider); err != nil {
		cancel()
		return nil, err
	}
	if s.log, err = sessionlog.Open(cfg.DB, s.id); err != nil {
		cancel()
		return nil, fmt.Errorf("session log: %w", err)
	}
	s.ch = session.New(session.Config{Role: session.Provider, Session: s.id, Grant: doc.Digest(), Self: cfg.Key, Peer: g.Requester, Log: cfg.Log})
	return s, nil
}

// Start reads the channel until Close. The first message of each life of this
// process says which records are here.
func (s *Session) Start() {
	s.wg.Go(func() {
		s.joined()
		for {
			d, err := s.ch.Receive(s.ctx)
			if err != nil {
				return
			}
			if err := s.dispatch(d); err != nil {
				s.cfg.Log.Debug("message dropped", "session", s.id, "kind", d.Kind.String(), "err", err)
			}
			d.Done()
		}
	})
}

// Close ends the work on this node without ending the session. Calls in
// flight return ErrDisconnected.
func (s *Session) Close() error {
	s.cancel()
	err := s.ch.Close()
	s.wg.Wait()
	s.failAll(ErrDisconnected)
	return err
}

// joined tells the requester what this side holds.
func (s *Session) joined() {
	cert, err := s.cert.Encode()
	if err != nil {
		s.cfg.Log.Error("encode a certificate", "session", s.id, "err", err)
		return
	}
	h, key := s.log.Head(), s.sub.Public()
	m, err := session.EncodeJoined(session.Joined{
		LogKey: hex.EncodeToString(key[:]), Cert: cert, Size: h.Size, Root: hex.EncodeToString(h.Root[:])})
	s.queue(m, err)
}

// queue sends a control message, or says at debug level why not.
func (s *Session) queue(m session.Message, err error) {
	if err == nil {
		err = s.ch.Send(s.ctx, m)
	}
	if err != nil {
		s.cfg.Log.Debug("not sent", "session", s.id, "kind", m.Kind.String(), "err", err)
	}
}

// Leave ends the session from this side: the requester closes it and signs
// the receipt.
func (s *Session) Leave(reason string) error {
	if s.over() {
		return over(s.State())
	}
	m, err := session.EncodeLeave(session.Leave{Reason: oneLine(reason)})
	s.queue(m, err)
	return err
}

// change sets the state and stores it. What is stored is read inside the
// transaction, so of two changes at once the older never comes last.
func (s *Session) change(set func(*stored)) error {
	s.mu.Lock()
	set(&s.st)
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	return s.cfg.DB.Update(s.ctx, func(tx *store.Tx) error {
		s.mu.Lock()
		st := s.st
		s.mu.Unlock()
		return sessions.Put(tx, s.id, st)
	})
}

// ID is the session id.
func (s *Session) ID() string { return s.id }

// Grant is what was granted.
func (s *Session) Grant() grant.Grant { return s.grant }

// Channel is where the node attaches streams.
func (s *Session) Channel() *session.Channel { return s.ch }

// State is the session's state as the requester told it last.
func (s *Session) State() gate.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return gate.State(s.st.State)
}

// Watch returns a channel that is closed on the next change of state.
func (s *Session) Watch() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *Session) over() bool { return s.State().Over() }

// Settled reports that nothing is left to exchange: the session has ended and
// both signed the receipt, or this side signs nothing more.
func (s *Session) Settled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.st.settled()
}

// Forked reports that the requester contradicted what it signed before, so the
// session has ended on this side without a receipt of both.
func (s *Session) Forked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.st.Forked
}

// parties is who may sign checkpoints; it needs the requester's certificate.
func (s *Session) parties() (sessionlog.Parties, error) {
	s.mu.Lock()
	raw := s.st.PeerCert
	s.mu.Unlock()
	if len(raw) == 0 {
		return sessionlog.Parties{}, errors.New("the requester's log key is not here yet")
	}
	cert, err := sessionlog.ParseCert(raw)
	if err != nil {
		return sessionlog.Parties{}, err
	}
	return sessionlog.Parties{Session: s.id, Requester: s.grant.Requester, Provider: s.grant.Provider,
		Certs: []sessionlog.KeyCert{cert, s.cert}}, nil
}
