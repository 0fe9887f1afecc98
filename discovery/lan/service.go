package lan

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	mrand "math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/weftmesh/weft/protocols/identity"
)

const (
	// askEvery is the time between questions once the first three were asked.
	askEvery = time.Minute
	// answerGap is the least time between two of our answers (RFC 6762
	// section 6).
	answerGap = time.Second
	// retryListen is how often we try again where multicast could not start.
	retryListen = time.Minute
	// maxInbox bounds packets waiting for the loop; more are dropped.
	maxInbox = 64
	// packetRate bounds the packets looked at, by second and at once.
	packetRate, packetBurst = 50, 200
)

// firstAsks are the delays of the first questions after a start or Refresh.
var firstAsks = []time.Duration{0, time.Second, 3 * time.Second}

// Config configures a Service. Self and Addrs are required.
type Config struct {
	// Self is the key we announce; packets about it are ignored.
	Self identity.PublicKey
	// Addrs returns our multiaddrs now, without /p2p/ID, best first.
	Addrs func() []string
	// Found is told of each candidate that is new, changed, or heard again
	// after a while. It must not block. Default: nobody is told.
	Found func(Candidate)
	// Prefer names peers that must find room in the table. Default: none.
	Prefer func(identity.PublicKey) bool
	// Log receives what happens. Default: nothing.
	Log *slog.Logger
	// Service is the name announced. Default ServiceName.
	Service string
}

// Service announces this node and listens for others from Start to Close.
type Service struct {
	cfg      Config
	instance string
	table    table
	refresh  chan struct{} // capacity 1
	inbox    chan packet
	tasks    sync.WaitGroup

	mu     sync.Mutex // guards below
	end    context.CancelFunc
	closed bool
}

// packet is one message that arrived, decoded.
type packet struct {
	msg message
	at  time.Time
}

// New makes a service that does nothing until Start.
func New(cfg Config) *Service {
	if cfg.Found == nil {
		cfg.Found = func(Candidate) {}
	}
	if cfg.Prefer == nil {
		cfg.Prefer = func(identity.PublicKey) bool { return false }
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Service == "" {
		cfg.Service = ServiceName
	}
	var id [16]byte
	rand.Read(id[:])
	return &Service{
		cfg: cfg, instance: hex.EncodeToString(id[:]),
		table:   table{prefer: cfg.Prefer, peers: map[identity.PublicKey]*entry{}},
		refresh: make(chan struct{}, 1), inbox: make(chan packet, maxInbox),
	}
}

// Start begins to announce and listen. An error says that multicast does not
// work here now; the service then goes on trying every minute and at each
// Refresh, so the caller need only tell the person.
func (s *Service) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.end != nil {
		return errors.New("local discovery was started before")
	}
	life, end := context.WithCancel(ctx)
	s.end = end
	limit := rate.NewLimiter(packetRate, packetBurst)
	n, err := s.listen(limit)
	s.tasks.Go(func() { s.run(life, n, limit) })
	return err
}

// Close says goodbye and waits for the goroutines. It may be called again.
func (s *Service) Close() error {
	s.mu.Lock()
	s.closed = true
	if s.end != nil {
		s.end()
	}
	s.mu.Unlock()
	s.tasks.Wait()
	return nil
}

// Refresh announces and asks anew on the interfaces there are now. Call it
// when this machine's addresses change or it wakes from sleep.
func (s *Service) Refresh() {
	select {
	case s.refresh <- struct{}{}:
	default:
	}
}

// Candidates returns who was heard in the last TTL, most recent first.
func (s *Service) Candidates() []Candidate { return s.table.list(time.Now()) }

// run owns the timers and the sockets.
func (s *Service) run(ctx context.Context, n *sockets, limit *rate.Limiter) {
	defer func() {
		if n != nil {
			s.answer(n, 0)
			n.close()
		}
	}()
	asks := firstAsks
	ask := time.NewTimer(asks[0])
	defer ask.Stop()
	reply := time.NewTimer(time.Hour)
	reply.Stop()
	defer reply.Stop()
	var answered time.Time
	due := false // reply is running
	soon := func() {
		if !due {
			due = true
			reply.Reset(max(answerGap-time.Since(answered), 0) + 20*time.Millisecond + mrand.N(100*time.Millisecond))
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.refresh:
			if n != nil {
				n.close()
			}
			n, _ = s.listen(limit)
			asks = firstAsks
			ask.Reset(asks[0])
		case <-ask.C:
			if n == nil {
				if n, _ = s.listen(limit); n == nil {
					ask.Reset(retryListen)
					continue
				}
				asks = firstAsks
			}
			if len(asks) > 0 { // the first questions come with an announcement
				soon()
			}
			if q, err := encodeQuestion(s.cfg.Service); err == nil {
				n.send(func(loopback bool) []byte { return q })
			}
			next := askEvery
			if len(asks) > 1 {
				next, asks = asks[1]-asks[0], asks[1:]
			} else {
				asks = nil
			}
			ask.Reset(next + mrand.N(next/10+1))
		case <-reply.C:
			due, answered = false, time.Now()
			if n != nil {
				s.answer(n, recordTTL)
			}
		case p := <-s.inbox:
			if p.msg.ask {
				soon()
				if asks == nil { // somebody asked for all of us
					ask.Reset(askEvery + mrand.N(askEvery/10))
				}
			}
			for _, h := range p.msg.answers {
				if h.peer == s.cfg.Self {
					continue
				}
				if c, tell := s.table.put(h, p.at); tell {
					s.cfg.Found(c)
				}
			}
		}
	}
}

func (s *Service) answer(n *sockets, ttl uint32) {
	addrs := s.cfg.Addrs()
	n.send(func(loopback bool) []byte {
		b, err := encodeAnswer(s.cfg.Service, s.instance, s.cfg.Self, addrs, loopback, ttl)
		if err != nil {
			return nil
		}
		return b
	})
}

// received decodes a packet and hands it to run, or drops it.
func (s *Service) received(raw []byte, loopback bool) {
	m, err := decode(raw, s.cfg.Service, loopback)
	if err != nil || !m.ask && len(m.answers) == 0 {
		return
	}
	select {
	case s.inbox <- packet{msg: m, at: time.Now()}:
	default:
	}
}
