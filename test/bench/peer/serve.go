package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// newServer is a plain MCP server over one folder.
func newServer(root *os.Root) *mcp.Server {
	f := folder{root}
	s := mcp.NewServer(&mcp.Implementation{Name: "plain", Version: "1"}, nil)
	for name, run := range map[string]func([]byte) (string, error){
		"workspace_info": f.info, "list_dir": f.list, "stat": f.stat, "glob": f.glob, "grep": f.grep, "read_file": f.read, "edit_file": f.edit,
	} {
		s.AddTool(&mcp.Tool{Name: name, Description: name, InputSchema: map[string]any{"type": "object"}}, handler(run))
	}
	return s
}

func handler(run func([]byte) (string, error)) mcp.ToolHandler {
	return func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		text, err := run(req.Params.Arguments)
		if err != nil {
			return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: err.Error()}}}, nil
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
	}
}

// maxLine holds the largest answer.
const maxLine = 8 << 20

// serveUnix serves one connection after the other.
func serveUnix(ctx context.Context, dir, socket string, say func(string) error) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { l.Close() })()
	if err := say(socket); err != nil {
		return err
	}
	server := newServer(root)
	for {
		c, err := l.Accept()
		if err != nil {
			return nil // closed: the end
		}
		session, err := server.Connect(ctx, &mcp.IOTransport{Reader: c, Writer: c, MaxLineLength: maxLine}, nil)
		if err != nil {
			return err
		}
		session.Wait()
	}
}

// serveHTTP serves stateless streamable HTTP, as weft mcp --http does.
func serveHTTP(ctx context.Context, dir string, say func(string) error) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	server := newServer(root)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { srv.Close() })()
	if err := say("http://" + l.Addr().String()); err != nil {
		return err
	}
	if err := srv.Serve(l); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}
