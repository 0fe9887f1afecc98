package sessions

import (
	"context"
	"errors"
	"time"

	"github.com/weftmesh/weft/node/host"
	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/protocols/session"
	"github.com/weftmesh/weft/workspace/requester"
)

// Pauses of the loops. A lost peer is back within a second or two; a peer that
// is away costs little.
const (
	redialFirst = 100 * time.Millisecond
	redialMost  = 5 * time.Second
	settleEvery = 30 * time.Second
	// overlap is how long an old stream may finish after a better one came.
	overlap = 5 * time.Second
)

// dial keeps a stream under a session that we work in, until it is settled.
func (d *Desk) dial(p *providing) {
	backoff := redialFirst
	for !p.finished() {
		nudged := d.nudged()
		began := time.Now()
		err := d.carry(p)
		if d.ctx.Err() != nil || p.finished() {
			break
		}
		d.cfg.Log.Debug("session has no stream", "session", p.ID(), "err", err)
		if time.Since(began) > redialMost {
			backoff = redialFirst
		}
		if refused := (*session.RefusedError)(nil); errors.As(err, &refused) {
			backoff = redialMost
			if refused.Reason == session.RefuseOver || refused.Reason == session.RefuseUnknown {
				p.Gone(refused.Reason.String())
			}
		}
		if !d.wait(nudged, backoff) {
			break
		}
		backoff = min(2*backoff, redialMost)
	}
	if p.finished() {
		d.mu.Lock()
		delete(d.provided, p.ID())
		d.mu.Unlock()
		p.Close()
	}
}

// finished reports that nothing is left to exchange: the session has ended,
// both signed and the requester has our signature, or the requester has let
// the session go.
func (p *providing) finished() bool {
	return p.Settled() && p.Channel().State().Queued == 0 || p.LetGo()
}

// carry opens a stream and runs the session over it. When the stream is
// relayed and a direct connection comes up, a second stream takes over.
func (d *Desk) carry(p *providing) error {
	requester := p.Grant().Requester
	st, path, err := d.cfg.Host.Open(d.ctx, requester, session.Protocol)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(d.ctx)
	defer cancel()
	d.setProvidedPath(p, path)
	done := d.attach(ctx, p, st)
	for {
		select {
		case err := <-done:
			return err
		case <-time.After(time.Second):
			if p.finished() {
				st.Close()
				return <-done
			}
			continue
		case <-d.nudged():
		}
		if path != host.Relay || d.better(requester) == path {
			continue
		}
		next, nextPath, err := d.cfg.Host.Open(ctx, requester, session.Protocol)
		if err != nil || nextPath == host.Relay {
			continue
		}
		// The old stream drains while the new one carries what is sent.
		old, drained := st, done
		st, path = next, nextPath
		d.setProvidedPath(p, path)
		done = d.attach(ctx, p, st)
		d.wg.Go(func() {
			t := time.NewTimer(overlap)
			defer t.Stop()
			select {
			case <-drained:
			case <-ctx.Done():
			case <-t.C:
				old.Reset()
			}
		})
	}
}

// attach runs the session over a stream and says when and why that ended.
func (d *Desk) attach(ctx context.Context, p *providing, st host.Stream) <-chan error {
	done := make(chan error, 1)
	d.wg.Go(func() { done <- p.Channel().Dial(ctx, st) })
	return done
}

// better is the best path to a peer now.
func (d *Desk) better(p identity.PublicKey) host.Path {
	path, _ := d.cfg.Host.PathOf(p)
	return path
}

func (d *Desk) setProvidedPath(p *providing, path host.Path) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p.path = path
}

// serveSession attaches a provider's stream to its session.
func (d *Desk) serveSession(ctx context.Context, from identity.PublicKey, st host.Stream, path host.Path) {
	hello, err := session.ReadHello(ctx, st)
	if err != nil {
		d.cfg.Log.Debug("no hello", "peer", from, "err", err)
		return
	}
	if hello.Peer != from {
		d.cfg.Log.Debug("hello of another peer", "peer", from)
		return
	}
	r, err := d.answering(hello.Session, from)
	if errors.Is(err, errLater) {
		return // resets the stream
	}
	if err != nil {
		reason := session.RefuseUnknown
		if errors.Is(err, errOver) {
			reason = session.RefuseOver
		}
		if err := hello.Refuse(st, d.cfg.Key, reason); err != nil {
			d.cfg.Log.Debug("refusal not delivered", "peer", from, "err", err)
		}
		return
	}
	d.mu.Lock()
	r.path = path
	d.mu.Unlock()
	carried := make(chan struct{})
	defer close(carried)
	d.wg.Go(func() { d.notePath(r, path, carried) })
	if err := r.Channel().Answer(ctx, st, hello); err != nil {
		d.cfg.Log.Debug("session stream ended", "session", hello.Session, "err", err)
	}
}

// notePath records the path of a stream once the session runs over it: a hello
// alone, or a path that comes and goes within a second, leaves no record.
func (d *Desk) notePath(r *requesting, path host.Path, carried <-chan struct{}) {
	t := time.NewTimer(pathLag)
	defer t.Stop()
	select {
	case <-carried:
		return
	case <-d.ctx.Done():
		return
	case <-t.C:
	}
	if !r.Channel().State().Attached {
		return
	}
	d.mu.Lock()
	before := r.noted
	r.noted = path
	d.mu.Unlock()
	if before != path {
		r.PathChanged(string(before), string(path))
	}
}

// pathLag is how long a path must last to be told.
const pathLag = 200 * time.Millisecond

var errUnknown = errors.New("no such session")

// answering finds the session that a provider's stream is for. errOver says
// that it was settled: the provider has nothing to wait for.
func (d *Desk) answering(id string, from identity.PublicKey) (*requesting, error) {
	d.mu.Lock()
	r := d.requested[id]
	d.mu.Unlock()
	switch {
	case r != nil && r.Grant().Provider == from:
		return r, nil
	case r != nil:
		return nil, errUnknown
	}
	peer, ended, err := requester.Ended(d.cfg.DB, id)
	switch {
	case err != nil || peer != from:
		return nil, errUnknown
	case ended:
		return nil, errOver
	}
	return nil, errLater
}

var (
	errOver = errors.New("the session is settled")
	// errLater says that a session is kept and not live right now, since the
	// node starts or stops: the provider tries again.
	errLater = errors.New("the session is not live")
)

// untilSettled keeps a session of ours live until both have signed its
// receipt, or the provider has had a day for it.
func (d *Desk) untilSettled(s *requester.Session) {
	for {
		nudged := s.Changed()
		if s.Settled() && !s.Channel().State().Attached || s.GivenUp() {
			d.mu.Lock()
			delete(d.requested, s.ID())
			d.mu.Unlock()
			s.Close()
			return
		}
		if !d.wait(nudged, settleEvery) {
			return
		}
	}
}
