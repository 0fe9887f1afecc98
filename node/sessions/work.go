package sessions

import (
	"bytes"
	"context"
	"errors"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/workspace/gate"
	"github.com/weftmesh/weft/workspace/provider"
)

// call makes one call, for scripts.
func (d *Desk) call(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[CallRequest](r)
	if err != nil {
		return err
	}
	s, err := d.findTheirs(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	defer s.free()
	res, err := s.theirs.CallJSON(r.Context(), in.Tool, in.Args)
	switch {
	case errors.Is(err, provider.ErrOver):
		state := s.theirs.State()
		code := "killed"
		if state == gate.Lapsed {
			code = "expired"
		}
		return api.Errorf(api.Denied, "session %s is over: %s", short(s.theirs.ID()), state).WithCode(code).Try("ask the requester for a new one; weft receipt get %s has what was done", s.theirs.ID())
	case errors.Is(err, provider.ErrDisconnected):
		return api.Errorf(api.Unreachable, "%v", err).Try("weft session show %s says how the requester is connected", s.theirs.ID())
	case err != nil:
		return err
	}
	header, content, _ := bytes.Cut(res.Body, []byte("\n"))
	out := CallResult{CallID: res.CallID, Verdict: res.Verdict, Code: res.Code, Kind: res.Kind, MIME: res.MIME, Text: string(res.Body)}
	if res.Kind != "text" {
		out.Text, out.Data = string(header), content
	}
	return api.Reply(w, out)
}

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
	server := s.theirs.Server(d.cfg.Version)
	// Stateless: a session handle is an argument, not a connection's state
	// (MCP 2026-07-28); the 2025 revisions work that way too.
	mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true}).ServeHTTP(w, r)
	return nil
}
