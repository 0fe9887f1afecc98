package session

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/weftmesh/weft/protocols/identity"
)

// Config says whose session it is. Session, Grant, Self and Peer are required;
// a Config that can't work makes Dial, Answer and Send return ErrConfig.
type Config struct {
	// Session is the session's id: 1 to 64 of A-Z a-z 0-9 - _ .
	Session string
	// Grant is the digest of the grant that both sides hold.
	Grant [32]byte
	// Self signs this side's handshakes.
	Self *identity.Key
	// Peer is the only identity that can be at the other end.
	Peer identity.PublicKey
	// Role is this side. The channel then refuses messages in the wrong
	// direction; zero allows every kind in both.
	Role Role
	// Log gets Debug lines only. Nil discards them.
	Log *slog.Logger
	// MaxQueued bounds the bytes of messages sent and not yet acknowledged.
	// Default and most is Window; less than one message of the largest size
	// and the reserve is raised to that.
	MaxQueued int
}

func (cfg *Config) validate() error {
	switch {
	case !isSession(cfg.Session):
		return fmt.Errorf("%w: session id %q", ErrConfig, cfg.Session)
	case cfg.Self == nil || cfg.Peer.IsZero():
		return fmt.Errorf("%w: Self and Peer are required", ErrConfig)
	case cfg.Self.Public() == cfg.Peer:
		return fmt.Errorf("%w: a session with oneself", ErrConfig)
	}
	return nil
}

// Channel is one life of one side of a session. It outlives its streams: each
// Dial or Answer attaches one, and messages, acknowledgements and the resend
// buffer belong to the channel. All methods may be called at any time from
// several goroutines.
type Channel struct {
	cfg    Config
	bad    error // of cfg
	boot   Boot
	log    *slog.Logger
	closed chan struct{}
	// arrived holds a token while inbox may have something for a Receive.
	arrived chan struct{}
	wg      sync.WaitGroup // Dial and Answer calls

	mu       sync.Mutex // guards everything below; never held across I/O
	isClosed bool
	started  uint64        // handshakes begun
	live     []*attachment // in handshake or attached
	attached []*attachment // oldest first
	active   *attachment   // the newest that may send; it carries everything
	watchers map[chan bool]func() bool
	status   Status

	// The pairing of this life with one life of the peer.
	peer    Boot
	pairing uint64 // counts pairings; 0 is none yet
	since   uint64 // the handshake that brought it
	retired []Boot // former lives of the peer
	out     [lanes]sendLane
	in      [lanes]recvLane
	held    int // bytes received and not done
	inbox   []*Delivery

	queued   int           // bytes in out
	room     chan struct{} // closed when queued shrinks; nil when nobody waits
	turn     int           // lane that goes first in the next frame
	ackBytes int           // done since the last acknowledgement
	ackCount int
	ackDue   bool        // acknowledge without waiting for data
	ackArmed bool        // ackTimer runs
	ackTimer *time.Timer // fires ackDelay after the first unacknowledged Done
}

// Status is a snapshot for people and metrics.
type Status struct {
	// Attached is whether a stream carries the session now.
	Attached bool
	// Attachments counts the streams that do.
	Attachments int
	// Attaches counts successful handshakes in this life of the channel.
	Attaches int
	// Since is when Attached last changed; zero before the first time.
	Since time.Time
	// RTT is the last measured round trip, zero before the first.
	RTT time.Duration
	// Queued are the bytes sent and not yet acknowledged, Messages their count.
	Queued, Messages int
	// Held are the bytes received and not yet done.
	Held int
	// BytesIn and BytesOut count frames on all streams.
	BytesIn, BytesOut uint64
	// FramesIn and FramesOut count frames; one frame is one write.
	FramesIn, FramesOut uint64
}

// New makes a channel with a boot id of its own. It has no goroutine until a
// stream is attached.
func New(cfg Config) *Channel {
	if cfg.MaxQueued <= 0 || cfg.MaxQueued > Window {
		cfg.MaxQueued = Window
	}
	cfg.MaxQueued = max(cfg.MaxQueued, maxMessage+reserve)
	c := &Channel{
		cfg: cfg, bad: cfg.validate(), log: cfg.Log,
		closed: make(chan struct{}), arrived: make(chan struct{}, 1),
		watchers: map[chan bool]func() bool{},
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	rand.Read(c.boot[:])
	for l := range c.out {
		c.out[l].init(Lane(l))
		c.in[l].init()
	}
	c.ackTimer = time.AfterFunc(time.Hour, c.ackNow)
	c.ackTimer.Stop()
	return c
}

// State is a snapshot.
func (c *Channel) State() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.status
	s.Attached, s.Attachments = len(c.attached) > 0, len(c.attached)
	s.Queued, s.Held = c.queued, c.held
	for l := range c.out {
		for _, o := range c.out[l].q {
			if !o.acked {
				s.Messages++
			}
		}
	}
	return s
}

// Watch returns a channel that holds whether a stream is attached, now and
// after each change; a slow reader sees the latest only. It is closed when ctx
// ends or the Channel closes.
func (c *Channel) Watch(ctx context.Context) <-chan bool {
	w := make(chan bool, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed {
		close(w)
		return w
	}
	w <- len(c.attached) > 0
	c.watchers[w] = context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if _, ok := c.watchers[w]; ok {
			delete(c.watchers, w)
			close(w)
		}
	})
	return w
}

// tell informs the watchers. c.mu is held, so nobody else sends.
func (c *Channel) tell(attached bool) {
	c.status.Since = time.Now()
	for w := range c.watchers {
		select {
		case <-w:
		default:
		}
		w <- attached
	}
}

// Close ends the channel and returns when its goroutines have: Send, Receive,
// Dial and Answer return ErrClosed. Acknowledgements of what was Done leave
// first, for at most closeGrace; messages not yet sent are dropped (see Drain).
// It is idempotent and returns nil.
func (c *Channel) Close() error {
	c.mu.Lock()
	if !c.isClosed {
		c.isClosed = true
		close(c.closed)
		c.ackTimer.Stop()
		for w, stop := range c.watchers {
			stop()
			close(w)
		}
		clear(c.watchers)
		for _, a := range c.live {
			if a.attached {
				signal(a.wake)
			}
		}
	}
	var young []*attachment
	for _, a := range c.live {
		if !a.attached {
			young = append(young, a)
		}
	}
	c.mu.Unlock()
	for _, a := range young {
		a.kill(ErrClosed)
	}
	stop := time.AfterFunc(closeGrace, c.killAll)
	defer stop.Stop()
	c.wg.Wait()
	return nil
}

// killAll resets every stream.
func (c *Channel) killAll() {
	c.mu.Lock()
	all := append([]*attachment(nil), c.live...)
	c.mu.Unlock()
	for _, a := range all {
		a.kill(ErrClosed)
	}
}
