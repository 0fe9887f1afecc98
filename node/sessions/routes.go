package sessions

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/store"
	"github.com/weftmesh/weft/workspace/gate"
	"github.com/weftmesh/weft/workspace/grant"
	"github.com/weftmesh/weft/workspace/provider"
	"github.com/weftmesh/weft/workspace/receipt"
	"github.com/weftmesh/weft/workspace/requester"
	"github.com/weftmesh/weft/workspace/sessionlog"
)

// Routes adds the desk's routes to the API.
func (d *Desk) Routes(m *api.Mux) {
	m.Handle("POST /v1/share", d.postShare)
	m.Handle("GET /v1/sessions", d.getSessions)
	m.Handle("GET /v1/sessions/{id}", d.getSession)
	m.Handle("GET /v1/sessions/{id}/watch", d.watch)
	m.Handle("GET /v1/sessions/{id}/log", d.getLog)
	m.Handle("GET /v1/sessions/{id}/export", d.getExport)
	m.Handle("GET /v1/sessions/{id}/receipt", d.getReceipt)
	m.Handle("GET /v1/sessions/{id}/proof/{seq}", d.getProof)
	m.Handle("POST /v1/sessions/{id}/stop", d.stop)
	m.Handle("POST /v1/sessions/{id}/pause", d.pause)
	m.Handle("POST /v1/sessions/{id}/resume", d.resume)
	m.Handle("GET /v1/offers", d.getOffers)
	m.Handle("POST /v1/offers/{id}/accept", d.postAccept)
	m.Handle("POST /v1/offers/{id}/decline", d.postDecline)
	m.Handle("POST /v1/sessions/{id}/call", d.call)
	m.Handle("POST /v1/sessions/{id}/mcp", d.mcpStream)
	m.HandleLarge("/v1/sessions/{id}/mcp-http", provider.MaxLine, d.mcpHTTP)
}

func (d *Desk) getSessions(w http.ResponseWriter, r *http.Request) error {
	ids, err := d.ids(false)
	if err != nil {
		return err
	}
	out := Sessions{Sessions: []Session{}}
	for _, id := range ids {
		s, err := d.find(r.Context(), id)
		if err != nil { // one that can't be read must not hide the others
			out.Sessions = append(out.Sessions, Session{SessionID: id, State: "unreadable", Reason: api.From(err).Error()})
			continue
		}
		out.Sessions = append(out.Sessions, d.show(s))
		s.free()
	}
	slices.SortFunc(out.Sessions, func(a, b Session) int { return strings.Compare(b.ExpiresAt, a.ExpiresAt) })
	return api.Reply(w, out)
}

func (d *Desk) getSession(w http.ResponseWriter, r *http.Request) error {
	s, err := d.find(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	defer s.free()
	return api.Reply(w, d.show(s))
}

// show describes a session of either role.
func (d *Desk) show(s side) Session {
	var g grant.Grant
	var totals sessionlog.Totals
	out := Session{Path: s.path, Cipher: "X25519 + ed25519, HKDF-SHA-256, ChaCha20-Poly1305"}
	var head sessionlog.Head
	var raw []byte
	switch {
	case s.mine != nil:
		v := s.mine.View()
		g, totals, head, raw = s.mine.Grant(), v.Totals, v.Head, s.mine.Receipt()
		out.Role, out.State, out.Reason, out.Peer = "requester", string(v.State), v.Reason, string(g.Provider.PeerID())
		out.PeerName, out.Acked, out.Sandbox, out.GrantHash = d.cfg.Name(g.Provider), v.Acked, v.Sandbox, s.mine.GrantHash()
		out.RTTMS = float64(s.mine.Channel().State().RTT.Microseconds()) / 1000
	default:
		v := s.theirs.View()
		g, totals, head, raw = s.theirs.Grant(), v.Totals, v.Head, s.theirs.Receipt()
		out.Role, out.State, out.Reason, out.Peer = "provider", string(v.State), v.Reason, string(g.Requester.PeerID())
		out.PeerName, out.Sandbox, out.GrantHash = d.cfg.Name(g.Requester), totals.Sandbox, s.theirs.GrantHash()
		out.RTTMS = float64(s.theirs.Channel().State().RTT.Microseconds()) / 1000
	}
	if v, err := receipt.Verify(raw); err == nil {
		out.Cosigned = v.Cosigned
	}
	refused := int64(0)
	for _, byVerdict := range totals.Counts {
		refused += int64(byVerdict[sessionlog.Denied])
	}
	out.SessionID, out.Calls, out.Allowed, out.Refused = g.Session, int64(totals.Calls), int64(totals.Calls)-refused, refused
	out.BytesRead, out.BytesWritten, out.LogSize, out.LogRoot = totals.BytesRead, totals.BytesWritten, head.Size, hex.EncodeToString(head.Root[:])
	out.Roots, out.Commands, out.Task, out.ExpiresAt = roots(g), commands(g), g.Task, g.ExpiresAt().UTC().Format(time.RFC3339)
	return out
}

// watch streams a session's events until it is settled.
func (d *Desk) watch(w http.ResponseWriter, r *http.Request) error {
	s, err := d.findMine(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	defer s.free()
	return api.Stream(w, r, func(ctx context.Context, send func(any) error) error {
		events, end := s.mine.Watch()
		defer end()
		v := s.mine.View()
		if err := send(requester.Event{State: string(v.State), Note: v.Reason, Time: d.cfg.Now().UnixMilli()}); err != nil {
			return err
		}
		for {
			changed := s.mine.Changed()
			if s.mine.View().State.Over() && len(events) == 0 && (s.mine.Settled() || !s.mine.Channel().State().Attached) {
				return nil
			}
			select {
			case e := <-events:
				if err := send(e); err != nil {
					return err
				}
			case <-changed:
			case <-time.After(time.Second):
			case <-ctx.Done():
				return nil
			}
		}
	})
}

func (d *Desk) stop(w http.ResponseWriter, r *http.Request) error {
	if s, err := d.find(r.Context(), r.PathValue("id")); err == nil && s.theirs != nil {
		defer s.free()
		in, err := api.Decode[StopRequest](r)
		if err != nil {
			return err
		}
		return d.leave(w, s.theirs, in.Reason)
	} else if err == nil {
		s.free()
	}
	return d.decide(w, r, func(ctx context.Context, s *requester.Session, reason string) error {
		if reason == "" {
			reason = "stopped by the requester"
		}
		// The kill must not depend on the caller's patience.
		return s.End(context.WithoutCancel(ctx), gate.Killed, reason)
	})
}

func (d *Desk) pause(w http.ResponseWriter, r *http.Request) error {
	return d.decide(w, r, func(ctx context.Context, s *requester.Session, reason string) error {
		if reason == "" {
			reason = "paused by the requester"
		}
		return s.Pause(ctx, reason)
	})
}

func (d *Desk) resume(w http.ResponseWriter, r *http.Request) error {
	return d.decide(w, r, func(ctx context.Context, s *requester.Session, _ string) error { return s.Resume(ctx) })
}

func (d *Desk) decide(w http.ResponseWriter, r *http.Request, act func(context.Context, *requester.Session, string) error) error {
	in, err := api.Decode[StopRequest](r)
	if err != nil {
		return err
	}
	began := time.Now()
	s, err := d.findMine(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	defer s.free()
	if err := act(r.Context(), s.mine, in.Reason); err != nil {
		if errors.Is(err, requester.ErrOver) {
			return api.Errorf(api.Conflict, "session %s is %s already", short(s.mine.ID()), s.mine.View().State).WithCode("over").Try("weft receipt get %s", s.mine.ID())
		}
		if errors.Is(err, requester.ErrState) {
			return api.Errorf(api.Conflict, "%v", err).Try("weft session show %s", s.mine.ID())
		}
		return err
	}
	return api.Reply(w, Stopped{SessionID: s.mine.ID(), State: string(s.mine.View().State), TookMS: time.Since(began).Milliseconds()})
}

func (d *Desk) getOffers(w http.ResponseWriter, _ *http.Request) error {
	out := Offers{Offers: []Offer{}}
	now := d.cfg.Now()
	err := d.cfg.DB.View(func(tx *store.Tx) error {
		return offers.Each(tx, "", func(key string, o received) error {
			g, doc, err := grant.Read(o.Grant)
			if err != nil || !now.Before(g.ExpiresAt()) {
				return nil // the next offer that arrives clears it away
			}
			out.Offers = append(out.Offers, Offer{
				SessionID: key, From: string(g.Requester.PeerID()), FromName: d.cfg.Name(g.Requester), Known: d.cfg.Known(g.Requester),
				Roots: roots(g), Commands: commands(g), Task: g.Task, Network: g.Network, GrantHash: grant.Digest(doc),
				ReceivedAt: time.UnixMilli(o.At).UTC().Format(time.RFC3339), ExpiresAt: g.ExpiresAt().UTC().Format(time.RFC3339),
			})
			return nil
		})
	})
	if err != nil {
		return err
	}
	slices.SortFunc(out.Offers, func(a, b Offer) int { return strings.Compare(a.ReceivedAt, b.ReceivedAt) })
	return api.Reply(w, out)
}

// acceptPatience is how long accept waits for the session to open, so that
// the next command finds it working.
const acceptPatience = 10 * time.Second

func (d *Desk) postAccept(w http.ResponseWriter, r *http.Request) error {
	p, err := d.accept(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), acceptPatience)
	defer cancel()
	for p.Log().Head().Size == 0 && ctx.Err() == nil && !p.State().Over() {
		changed := p.Watch()
		if p.Log().Head().Size > 0 {
			break
		}
		select {
		case <-changed:
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	s, err := d.find(r.Context(), p.ID())
	if err != nil {
		return err
	}
	defer s.free()
	return api.Reply(w, d.show(s))
}

func (d *Desk) postDecline(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[StopRequest](r)
	if err != nil {
		return err
	}
	reason := in.Reason
	if reason == "" {
		reason = "declined"
	}
	began := time.Now()
	id, err := d.fullID(r.PathValue("id"), true)
	if err != nil {
		return err
	}
	p, err := d.accept(r.Context(), id)
	if err != nil {
		return err
	}
	if err := p.Leave(reason); err != nil {
		return err
	}
	return api.Reply(w, Stopped{SessionID: id, State: "declined", TookMS: time.Since(began).Milliseconds()})
}

// leave ends a session from the side that works in it: the requester closes
// it and signs the receipt when it hears of it.
func (d *Desk) leave(w http.ResponseWriter, s *provider.Session, reason string) error {
	began := time.Now()
	if reason == "" {
		reason = "the provider is done"
	}
	if err := s.Leave(reason); err != nil {
		if errors.Is(err, provider.ErrOver) {
			return api.Errorf(api.Conflict, "session %s is %s already", short(s.ID()), s.State()).WithCode("over").Try("weft receipt get %s", s.ID())
		}
		return err
	}
	return api.Reply(w, Stopped{SessionID: s.ID(), State: "left", TookMS: time.Since(began).Milliseconds()})
}

// parseSeq reads a record's number.
func parseSeq(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0, api.Errorf(api.Invalid, "%q is not a record number", s).Try("weft session log ID shows them")
	}
	return n, nil
}
