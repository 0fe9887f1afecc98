package sessions

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/store"
	"github.com/weftmesh/weft/workspace/grant"
	"github.com/weftmesh/weft/workspace/provider"
	"github.com/weftmesh/weft/workspace/requester"
)

// minPrefix is the shortest beginning of a session id that may stand for it.
const minPrefix = 8

// idLength is the length of a whole session id.
const idLength = 26

// short is a session id as people read it.
func short(id string) string { return id[:min(len(id), minPrefix)] }

// fullID completes the beginning of a session id.
func (d *Desk) fullID(id string, withOffers bool) (string, error) {
	if grant.ValidSession(id) {
		return id, nil
	}
	if len(id) < minPrefix || len(id) > idLength || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") != "" {
		return "", api.Errorf(api.Invalid, "%.40q is not a session id", id).Try("weft sessions or weft offers lists them; the first 8 characters are enough")
	}
	all, err := d.ids(withOffers)
	if err != nil {
		return "", err
	}
	all = slices.DeleteFunc(all, func(s string) bool { return !strings.HasPrefix(s, id) })
	switch len(all) {
	case 0:
		return "", notFound(id)
	case 1:
		return all[0], nil
	}
	return "", api.Errorf(api.Invalid, "%q is the beginning of %d session ids", id, len(all)).WithCode("ambiguous").Try("give more characters")
}

func notFound(id string) error {
	return api.Errorf(api.NotFound, "no session %s here", id).Try("weft sessions and weft offers list them")
}

func (d *Desk) ids(withOffers bool) (all []string, err error) {
	mine, err := requester.List(d.cfg.DB)
	if err != nil {
		return nil, err
	}
	theirs, err := provider.List(d.cfg.DB)
	if err != nil {
		return nil, err
	}
	for _, b := range mine {
		all = append(all, b.ID)
	}
	for _, b := range theirs {
		all = append(all, b.ID)
	}
	if !withOffers {
		return all, nil
	}
	err = d.cfg.DB.View(func(tx *store.Tx) error {
		return offers.Each(tx, "", func(key string, _ received) error {
			all = append(all, key)
			return nil
		})
	})
	return all, err
}

// side is a session of either role, and how to let go of it.
type side struct {
	mine   *requester.Session
	theirs *provider.Session
	agents *agents // of a live session of theirs
	path   string
	free   func()
}

// find returns a live session, or opens a settled one for a look. The caller
// calls free.
func (d *Desk) find(ctx context.Context, id string) (side, error) {
	id, err := d.fullID(id, false)
	if err != nil {
		return side{}, err
	}
	d.mu.Lock()
	r, p := d.requested[id], d.provided[id]
	var path string
	if r != nil {
		path = string(r.path)
	} else if p != nil {
		path = string(p.path)
	}
	d.mu.Unlock()
	switch {
	case r != nil:
		return side{mine: r.Session, path: attached(r.Channel().State().Attached, path), free: func() {}}, nil
	case p != nil:
		return side{theirs: p.Session, agents: p.agents, path: attached(p.Channel().State().Attached, path), free: func() {}}, nil
	}
	if s, err := requester.Load(ctx, d.requesterConfig(), id); err == nil {
		return side{mine: s, free: func() { s.Close() }}, nil
	} else if !errors.Is(err, store.ErrNotFound) {
		return side{}, err
	}
	s, err := provider.Load(d.providerConfig(), id)
	if errors.Is(err, store.ErrNotFound) {
		return side{}, notFound(id)
	}
	if err != nil {
		return side{}, err
	}
	return side{theirs: s, free: func() { s.Close() }}, nil
}

func attached(yes bool, path string) string {
	if !yes {
		return ""
	}
	return path
}

// requesting finds a live session of ours.
func (d *Desk) findMine(ctx context.Context, id string) (side, error) {
	s, err := d.find(ctx, id)
	if err == nil && s.mine == nil {
		s.free()
		return side{}, api.Errorf(api.Denied, "in this session the folder is the other side's, and so is this decision").Try("weft stop %s leaves the session", id)
	}
	return s, err
}

// findTheirs finds a session that we work in.
func (d *Desk) findTheirs(ctx context.Context, id string) (side, error) {
	full, err := d.fullID(id, true)
	if err != nil {
		return side{}, err
	}
	waiting := false
	if err := d.cfg.DB.View(func(tx *store.Tx) (err error) {
		waiting, err = offers.Has(tx, full)
		return err
	}); err != nil {
		return side{}, err
	}
	if waiting {
		return side{}, api.Errorf(api.Conflict, "session %s is offered and not accepted yet", short(full)).WithCode("not_accepted").Try("weft accept %s", full)
	}
	s, err := d.find(ctx, full)
	if err == nil && s.theirs == nil {
		s.free()
		return side{}, api.Errorf(api.Conflict, "session %s shares your own folder; calls come from the other side", short(full)).Try("weft watch %s", full)
	}
	return s, err
}
