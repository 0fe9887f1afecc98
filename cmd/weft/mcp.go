package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftmesh/weft/node/agents"
	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/node/sessions"
	"github.com/weftmesh/weft/workspace/gate"
)

func mcpCommand(c *cli) *cobra.Command {
	var addr string
	cmd := &cobra.Command{
		Use:   "mcp ID",
		Short: "Be the MCP server of a session, for an agent",
		Long: `Serve a session's tools to an agent: on standard input and output, or with
--http on a loopback address, where the printed bearer token must be shown.`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&addr, "http", "", "serve streamable HTTP on this loopback address instead, such as 127.0.0.1:0")
	cmd.RunE = c.run(func(ctx context.Context, args []string) error {
		client, err := c.client()
		if err != nil {
			return err
		}
		defer client.Close()
		if addr != "" {
			return c.mcpHTTP(ctx, client, args[0], addr)
		}
		conn, err := client.Upgrade(ctx, sessionPath(args[0])+"/mcp")
		if err != nil {
			return err
		}
		return copyStdio(ctx, c, conn)
	})
	return cmd
}

// copyStdio copies bytes both ways until the node closes the connection.
func copyStdio(ctx context.Context, c *cli, conn *api.Conn) error {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	go func() { // ends with the process: a read of standard input can't be stopped
		io.Copy(conn, c.in)
		conn.CloseWrite()
	}()
	if _, err := io.Copy(c.out, conn); err != nil && ctx.Err() == nil {
		return api.Errorf(api.NotRunning, "the connection to weft broke: %v", err).Try("see whether weft up still runs, then start the agent again")
	}
	return nil
}

// httpReady is the first line of mcp --http --json.
type httpReady struct {
	Event string `json:"event"`
	URL   string `json:"url"`
	Token string `json:"token"`
}

// headerWait bounds a client that opens a connection and says nothing.
const headerWait = 10 * time.Second

func (c *cli) mcpHTTP(ctx context.Context, client *api.Client, id, addr string) error {
	var s sessions.Session
	if err := client.Get(ctx, sessionPath(id), &s); err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return api.Errorf(api.Usage, "--http %s is not a loopback address", addr).Try("--http 127.0.0.1:0")
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", addr, err)
	}
	var secret [24]byte
	rand.Read(secret[:])
	token := hex.EncodeToString(secret[:])
	url := "http://" + listener.Addr().String() + "/mcp"
	ready := httpReady{Event: "ready", URL: url, Token: token}
	if err := c.print(ready, func(w io.Writer) {
		fmt.Fprintf(w, "url\t%s\nheader\tAuthorization: Bearer %s\n", url, token)
	}); err != nil {
		return err
	}
	server := &http.Server{Handler: bearer(token, client.Proxy(sessionPath(s.SessionID)+"/mcp-http")), ReadHeaderTimeout: headerWait}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(listener); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serve MCP: %w", err)
	}
	return nil
}

// bearer lets only those through that show the token. A page in a browser is
// never a client.
func bearer(token string, next http.Handler) http.Handler {
	want := []byte("Bearer " + token)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Origin") != "":
			http.Error(w, "not for web pages", http.StatusForbidden)
		case subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1:
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "show the token that weft mcp printed", http.StatusUnauthorized)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func workCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "work ID -- COMMAND...",
		Short: "Run an agent with a session's tools",
		Long: `Run an agent with the session's MCP server configured for it. Claude Code, Codex,
Gemini CLI and opencode are known; any other program finds the command in
WEFT_MCP_COMMAND. The exit code is the agent's.`,
		Example: `  weft work k3j2h1g5 -- claude -p "fix the failing test"
  weft work k3j2h1g5 -- codex exec "fix the failing test"`,
		Args: cobra.MinimumNArgs(2),
		RunE: c.run(func(ctx context.Context, args []string) error {
			var s sessions.Session
			if err := c.get(ctx, sessionPath(args[0]), &s); err != nil {
				return err
			}
			if s.Role != "provider" {
				return api.Errorf(api.Conflict, "session %s shares your own folder; the agent works on the other side", s.SessionID[:8]).Try("weft watch %s", s.SessionID[:8])
			}
			if gate.State(s.State).Over() {
				return api.Errorf(api.Denied, "session %s is over: %s", s.SessionID[:8], s.State).WithCode("over").Try("ask the requester for a new one")
			}
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find weft itself: %w", err)
			}
			home, err := c.dir()
			if err != nil {
				return err
			}
			// Below the home, since agents distrust settings in a folder that others can write.
			dir, err := os.MkdirTemp(string(home), "work-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			launch, err := agents.Configure(args[1:], []string{self, "--home", string(home), "mcp", s.SessionID}, dir)
			if err != nil {
				return err
			}
			exit, err := agents.Run(ctx, launch, c.in, c.out, c.err)
			if err != nil {
				return err
			}
			if exit != 0 {
				return exitCode(exit)
			}
			return nil
		}),
	}
}
