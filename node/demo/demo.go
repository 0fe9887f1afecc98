package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/node/sessions"
)

// Config configures a run.
type Config struct {
	// Weft is the binary to run, usually this one.
	Weft string
	// Dir keeps the homes and the folder afterwards; empty means a temporary
	// directory that is removed.
	Dir string
	// Show is called for each step, check and call as it happens.
	Show func(Event)
}

// Event is one line of the demo.
type Event struct {
	// Event is step, fact, call or done.
	Event string `json:"event"`
	Text  string `json:"text"`
	// Tool, Verdict, Code and Path are set for a call, as weft watch shows it.
	Tool    string `json:"tool,omitzero"`
	Verdict string `json:"verdict,omitzero"`
	Code    string `json:"code,omitzero"`
	Path    string `json:"path,omitzero"`
}

// Patience of the demo's waits. Each step takes well under a second on an
// idle machine, the first go test of a fresh build cache some ten.
const (
	patience     = 20 * time.Second
	testPatience = 3 * time.Minute
)

// play is a run on its way.
type play struct {
	cfg   Config
	dir   string
	relay *daemon
	req   *daemon // whose folder it is
	prov  *daemon // whose agent works
	id    string  // of the session
}

// Run plays the demo. It returns nil only if every check held.
func Run(ctx context.Context, cfg Config) (err error) {
	p := &play{cfg: cfg, dir: cfg.Dir}
	if p.dir == "" {
		if p.dir, err = os.MkdirTemp("", "weft-demo-"); err != nil {
			return fmt.Errorf("make a directory: %w", err)
		}
		defer os.RemoveAll(p.dir)
	} else if err := fresh(p.dir); err != nil {
		return err
	}
	defer func() {
		for _, d := range []*daemon{p.prov, p.req, p.relay} {
			if d != nil {
				err = errors.Join(err, d.stop())
			}
		}
	}()
	for _, act := range []func(context.Context) error{p.start, p.offer, p.work, p.direct, p.close} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	p.say("done", "Everything held. Next: weft up here and on another machine, then weft share DIR --with PEER.")
	return nil
}

// fresh makes the directory to keep; it must be new or empty.
func fresh(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look into %s: %w", dir, err)
	}
	if len(entries) > 0 {
		return api.Errorf(api.Conflict, "%s is not empty", dir).Try("give --keep a new directory")
	}
	return nil
}

func (p *play) say(event, format string, args ...any) {
	p.cfg.Show(Event{Event: event, Text: fmt.Sprintf(format, args...)})
}

// start brings up the mesh. The two sides know only the relay and go through
// it alone until told otherwise.
func (p *play) start(ctx context.Context) (err error) {
	p.say("step", "Three peers start: a relay, a requester with a folder, a provider with an agent")
	if p.relay, err = up(ctx, p.cfg.Weft, filepath.Join(p.dir, "relay"), "--relay", "--profile", "relay"); err != nil {
		return err
	}
	if len(p.relay.ready.Addrs) == 0 {
		return fmt.Errorf("the relay has no address")
	}
	at := p.relay.ready.Addrs[0]
	if p.req, err = up(ctx, p.cfg.Weft, filepath.Join(p.dir, "requester"), "--relay-only", "--bootstrap", at); err != nil {
		return err
	}
	if p.prov, err = up(ctx, p.cfg.Weft, filepath.Join(p.dir, "provider"), "--relay-only", "--bootstrap", at); err != nil {
		return err
	}
	for _, d := range []*daemon{p.relay, p.req, p.prov} {
		p.say("fact", "%-9s %s", filepath.Base(d.home), d.ready.PeerID)
	}
	return nil
}

// offer shares the folder and accepts it.
func (p *play) offer(ctx context.Context) error {
	p.say("step", "The requester grants a folder: read, write, and go test in a sandbox")
	folder := filepath.Join(p.dir, "shop")
	if err := makeFolder(ctx, folder); err != nil {
		return err
	}
	in := sessions.ShareRequest{
		Roots: []sessions.ShareRoot{{Name: "shop", Dir: folder}}, With: p.prov.ready.PeerID, Write: true, Run: []string{"go-test"},
		Seconds: 900, Task: "The test of the total fails. Find out why and mend it.",
	}
	var shared sessions.Shared
	if err := p.req.client.Post(ctx, "/v1/share", in, &shared); err != nil {
		return err
	}
	p.id = shared.SessionID
	p.say("fact", "session %s, grant %s..., commands in %s", p.id[:8], shared.GrantHash[:16], shared.Sandbox)
	err := eventually(ctx, "the offer arrives", patience, func() (bool, error) {
		var offers sessions.Offers
		err := p.prov.client.Get(ctx, "/v1/offers", &offers)
		return len(offers.Offers) == 1 && offers.Offers[0].SessionID == p.id, err
	})
	if err != nil {
		return err
	}
	var s sessions.Session
	if err := p.prov.client.Post(ctx, "/v1/offers/"+p.id+"/accept", nil, &s); err != nil {
		return err
	}
	if s.State != "open" || s.Path != "relay" {
		return fmt.Errorf("the session is %s over %q, and should be open over the relay", s.State, s.Path)
	}
	p.say("fact", "accepted; connected by %s, end to end by %s", s.Path, s.Cipher)
	return nil
}

// direct lets both sides go around the relay, while the session is open.
func (p *play) direct(ctx context.Context) error {
	p.say("step", "Both allow direct connections; the same session moves off the relay")
	for _, d := range []*daemon{p.req, p.prov} {
		if err := d.client.Post(ctx, "/v1/relay-only", map[string]bool{"on": false}, nil); err != nil {
			return err
		}
	}
	var s sessions.Session
	err := eventually(ctx, "the session goes direct", patience, func() (bool, error) {
		err := p.prov.client.Get(ctx, "/v1/sessions/"+p.id, &s)
		return s.Path == "direct quic" || s.Path == "direct tcp", err
	})
	if err != nil {
		return err
	}
	if err := p.agent(ctx, func(a *agent) error {
		return a.expect(ctx, "ok", "read_file", map[string]any{"path": "shop/total.go"}, "a + b")
	}); err != nil {
		return err
	}
	p.say("fact", "now connected by %s; nothing was lost or repeated", s.Path)
	return nil
}

// close ends the session and proves it from files alone.
func (p *play) close(ctx context.Context) error {
	p.say("step", "The requester stops the session; both sign the receipt")
	began := time.Now()
	var stopped sessions.Stopped
	if err := p.req.client.Post(ctx, "/v1/sessions/"+p.id+"/stop", sessions.StopRequest{}, &stopped); err != nil {
		return err
	}
	p.say("fact", "stopped in %d ms", time.Since(began).Milliseconds())
	return p.verify(ctx)
}

// eventually polls until ok, an error or the end of patience.
func eventually(ctx context.Context, what string, patience time.Duration, ok func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		done, err := ok()
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("until %s: %w", what, err)
		}
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return api.Errorf(api.Timeout, "waited %v until %s", patience, what).Try("run it again on an idle machine, with --keep DIR to look at the logs")
		case <-tick.C:
		}
	}
}
