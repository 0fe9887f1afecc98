package sessions

import (
	"errors"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/protocols/strict"
	"github.com/weftmesh/weft/store"
	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/gate"
	"github.com/weftmesh/weft/workspace/grant"
	"github.com/weftmesh/weft/workspace/requester"
)

// shelf is a desk with sessions of ours and no host: what answers about kept
// sessions needs none.
type shelf struct {
	t    *testing.T
	d    *Desk
	them *identity.Key
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	home := t.TempDir()
	db, err := store.Open(store.Options{Dir: filepath.Join(home, "store")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	cfg := Config{DB: db, Key: identity.Generate(), Log: slog.New(slog.DiscardHandler), Home: home, StateDir: filepath.Join(home, "sessions"),
		Name: func(identity.PublicKey) string { return "" }, Known: func(identity.PublicKey) bool { return true }, Now: time.Now}
	return &shelf{t: t, d: &Desk{cfg: cfg, requested: map[string]*requesting{}, provided: map[string]*providing{}}, them: identity.Generate()}
}

// offer makes a session of ours, by a clock that is behind.
func (s *shelf) offer(behind time.Duration) *requester.Session {
	s.t.Helper()
	now := func() time.Time { return time.Now().Add(-behind) }
	g := grant.Grant{V: grant.Version, Session: grant.NewSession(), Requester: s.d.cfg.Key.Public(), Provider: s.them.Public(),
		Roots: []grant.Root{{Name: "app", Rights: workspace.Read}}, Limits: grant.DefaultLimits(),
		Issued: now().UnixMilli(), Expires: now().Add(time.Hour).UnixMilli()}
	doc, err := grant.Sign(g, s.d.cfg.Key)
	if err != nil {
		s.t.Fatal(err)
	}
	cfg := s.d.requesterConfig()
	cfg.Now = now
	r, err := requester.Offer(s.t.Context(), cfg, doc, map[string]string{"app": s.t.TempDir()})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { r.Close() })
	return r
}

func (s *shelf) end(r *requester.Session) *requester.Session {
	s.t.Helper()
	if err := r.End(s.t.Context(), gate.Killed, "a test"); err != nil {
		s.t.Fatal(err)
	}
	return r
}

// TestKeptSessionIsNotCalledOver: a provider whose session is not live here is
// told that it is over only if nothing is left to exchange; it would let go of
// it for ever.
func TestKeptSessionIsNotCalledOver(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	them, stranger := s.them.Public(), identity.Generate().Public()
	kept := s.offer(0).ID()
	unsigned := s.end(s.offer(0)).ID()
	givenUp := s.end(s.offer(25 * time.Hour)).ID()
	live := s.offer(0)
	s.d.requested[live.ID()] = &requesting{Session: live}
	for name, tc := range map[string]struct {
		id   string
		from identity.PublicKey
		want error
	}{
		"open, and not live":                     {kept, them, errLater},
		"ended, its receipt not signed by both":  {unsigned, them, errLater},
		"ended, and given up":                    {givenUp, them, errOver},
		"live":                                   {live.ID(), them, nil},
		"live, asked by a stranger":              {live.ID(), stranger, errUnknown},
		"not live, asked by a stranger":          {kept, stranger, errUnknown},
		"given up, asked by a stranger":          {givenUp, stranger, errUnknown},
		"no such session":                        {grant.NewSession(), them, errUnknown},
		"what is no session id, and a long one":  {string(make([]byte, 1<<12)), them, errUnknown},
		"the empty id":                           {"", them, errUnknown},
		"an id that is the beginning of another": {kept[:8], them, errUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := s.d.answering(tc.id, tc.from)
			if !errors.Is(err, tc.want) || (r != nil) != (tc.want == nil) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

// TestUnreadableSessionHidesNoOther: a session that can't be opened is listed
// as that, beside the sound ones.
func TestUnreadableSessionHidesNoOther(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	sound, damaged := s.offer(0), s.offer(0)
	for _, r := range []*requester.Session{sound, damaged} {
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	raw := store.NewCollection[[]byte]("requester-sessions")
	err := s.d.cfg.DB.Update(t.Context(), func(tx *store.Tx) error {
		v, err := raw.Get(tx, damaged.ID())
		if err != nil {
			return err
		}
		broken := regexp.MustCompile(`"logKey":"[0-9a-f]+"`).ReplaceAll(v, []byte(`"logKey":"lost"`))
		return raw.Put(tx, damaged.ID(), broken)
	})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	if err := s.d.getSessions(w, httptest.NewRequestWithContext(t.Context(), "GET", "/v1/sessions", nil)); err != nil {
		t.Fatal(err)
	}
	var got Sessions
	if err := strict.Unmarshal(w.Body.Bytes(), 1<<20, &got); err != nil {
		t.Fatal(err)
	}
	states := map[string]Session{}
	for _, l := range got.Sessions {
		states[l.SessionID] = l
	}
	if l := states[damaged.ID()]; l.State != "unreadable" || l.Reason == "" {
		t.Errorf("the damaged one: %+v", l)
	}
	if l := states[sound.ID()]; l.State != string(gate.Offered) || l.Role != "requester" {
		t.Errorf("the sound one: %+v", l)
	}
}

// TestEndedSessionsDontCountAsLive: sessions that have ended and wait for the
// provider's signature don't keep a new one from starting; open ones do.
func TestEndedSessionsDontCountAsLive(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	errPeer := errors.New("the peer is looked for next")
	s.d.cfg.Resolve = func(string) (identity.PublicKey, error) { return identity.PublicKey{}, errPeer }
	fill := func(r *requester.Session) {
		for i := range maxLive {
			s.d.requested["session "+strconv.Itoa(i)] = &requesting{Session: r}
		}
	}
	fill(s.end(s.offer(0)))
	if _, err := s.d.share(t.Context(), ShareRequest{}); !errors.Is(err, errPeer) {
		t.Errorf("beside ended sessions: %v", err)
	}
	fill(s.offer(0))
	if _, err := s.d.share(t.Context(), ShareRequest{}); api.From(err).Kind != api.Limited {
		t.Errorf("beside open sessions: %v", err)
	}
}
