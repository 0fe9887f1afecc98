package node

import (
	"context"
	"time"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/node/sessions"
)

// component is a part of the daemon with routes and a life of its own. The
// Node makes it, calls Routes once, then Start, and Close at the end.
type component interface {
	// Routes adds the component's routes to the API.
	Routes(*api.Mux)
	// Start returns when the component is ready to be called, by peers too:
	// the host starts right after. Until then host.Keep and host.Subscribe
	// work and host.Open doesn't, so Start reads the store and leaves the
	// dialling to a goroutine that waits for events. ctx bounds the start only.
	Start(ctx context.Context) error
	// Close is idempotent, works without Start, and returns when the
	// component's goroutines have ended. The store and the host are still
	// open then.
	Close() error
}

// reporter is a component that adds to the status.
type reporter interface{ Report(*Status) }

// checker is a component that adds checks to the doctor's.
type checker interface {
	Checks(ctx context.Context) []Check
}

// components makes every component of the daemon, in the order in which they
// start. This list is the one place to add one.
func (n *Node) components() ([]component, error) {
	return []component{
		sessions.New(sessions.Config{
			DB: n.db, Key: n.key, Host: n.host, Log: n.log.With("part", "sessions"), Home: string(n.cfg.Home), StateDir: n.cfg.Home.Sessions(),
			Resolve: n.Resolve, Name: n.book.Name, Known: n.book.Known, Version: BuildInfo().Version, Now: time.Now,
		}),
	}, nil
}
