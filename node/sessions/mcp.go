package sessions

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/workspace/provider"
)

const (
	// stateless is the first MCP revision in which a request stands alone: no
	// initialize, no session id, and a closed request is a cancelled one.
	stateless = "2026-07-28"
	// maxClients bounds the MCP sessions that clients of the 2025 revisions
	// have open over HTTP in one session of ours.
	maxClients = 128
	// clientIdle is how long such a session may be silent: a person who is asked
	// something by the agent may be at lunch.
	clientIdle = 2 * time.Hour
)

// mcpStream is an MCP connection as raw bytes: weft mcp copies them to and
// from its standard streams.
func (d *Desk) mcpStream(w http.ResponseWriter, r *http.Request) error {
	s, err := d.findTheirs(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	defer s.free()
	if s.theirs.State().Over() {
		return api.Errorf(api.Denied, "session %s is over: %s", short(s.theirs.ID()), s.theirs.State()).WithCode("over").Try("ask the requester for a new one")
	}
	return api.Upgrade(w, r, func(ctx context.Context, c *api.Conn) error {
		server := s.theirs.Server(d.cfg.Version)
		session, err := server.Connect(ctx, &mcp.IOTransport{Reader: c, Writer: c, MaxLineLength: provider.MaxLine}, nil)
		if err != nil {
			return err
		}
		stop := context.AfterFunc(ctx, func() { session.Close() })
		defer stop()
		return session.Wait()
	})
}

// mcpHTTP is MCP over streamable HTTP. It stands behind the API's token; weft
// mcp --http puts a listener with a token of its own before it, so that an
// agent never holds the node's.
func (d *Desk) mcpHTTP(w http.ResponseWriter, r *http.Request) error {
	s, err := d.findTheirs(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	defer s.free()
	r, done := api.Streaming(r)
	defer done()
	if s.agents == nil { // the session was settled; its calls say so
		newAgents(s.theirs, d.cfg.Version).alone.ServeHTTP(w, r)
		return nil
	}
	return s.agents.serve(w, r)
}

// agents are the MCP clients that come over HTTP to one session.
//
// A client of the 2026-07-28 revision sends requests that stand alone. One of
// the 2025 revisions has a session of its own, since it cancels a call by
// another request, which must find the first.
type agents struct {
	server *mcp.Server
	alone  http.Handler
	bound  http.Handler

	mu     sync.Mutex
	closed bool
}

func newAgents(s *provider.Session, version string) *agents {
	a := &agents{server: s.Server(version)}
	serve := func(*http.Request) *mcp.Server { return a.server }
	a.alone = mcp.NewStreamableHTTPHandler(serve, &mcp.StreamableHTTPOptions{
		Stateless: true, PropagateRequestCancellation: true, MaxRequestBodyBytes: provider.MaxLine})
	a.bound = mcp.NewStreamableHTTPHandler(serve, &mcp.StreamableHTTPOptions{
		SessionTimeout: clientIdle, MaxRequestBodyBytes: provider.MaxLine})
	return a
}

func (a *agents) serve(w http.ResponseWriter, r *http.Request) error {
	if r.Header.Get("Mcp-Protocol-Version") >= stateless {
		a.alone.ServeHTTP(w, r)
		return nil
	}
	if r.Header.Get("Mcp-Session-Id") == "" && r.Method == http.MethodPost {
		if len(slices.Collect(a.server.Sessions())) >= maxClients {
			return api.Errorf(api.Limited, "%d MCP clients are connected to this session", maxClients).Try("end some of the agents, or let each end its MCP session")
		}
		defer func() {
			a.mu.Lock()
			closed := a.closed
			a.mu.Unlock()
			if closed { // while this one came
				a.close()
			}
		}()
	}
	a.bound.ServeHTTP(w, r)
	return nil
}

// close ends the clients' sessions. The calls in them have ended before.
func (a *agents) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	for session := range a.server.Sessions() {
		session.Close()
	}
}
