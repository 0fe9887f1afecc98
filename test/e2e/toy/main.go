// Command toy is a small stdio MCP server. The end-to-end tests drive it first
// with every client and agent, so that a failure in a session test is known
// not to be the client's.
//
// Its tools: toy_nonce answers with the nonce of TOY_NONCE, which no model
// can know; toy_echo wants that nonce back, so that an argument computed from
// a result is seen to work; toy_slow reports progress until it is cancelled
// or has counted to "ticks"; toy_fail answers with an error result. Each call
// is appended to the file TOY_LOG as one JSON line.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// tick is how often toy_slow reports progress.
const tick = 20 * time.Millisecond

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	out, err := os.OpenFile(os.Getenv("TOY_LOG"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	t := toy{nonce: os.Getenv("TOY_NONCE"), log: out}
	s := mcp.NewServer(&mcp.Implementation{Name: "toy", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "toy_nonce", Description: "Answers with a nonce."}, t.giveNonce)
	mcp.AddTool(s, &mcp.Tool{Name: "toy_echo", Description: "Checks the nonce of toy_nonce."}, t.echo)
	mcp.AddTool(s, &mcp.Tool{Name: "toy_slow", Description: "Counts slowly, with progress."}, t.slow)
	mcp.AddTool(s, &mcp.Tool{Name: "toy_fail", Description: "Always fails."}, t.fail)
	return s.Run(ctx, &mcp.StdioTransport{})
}

// toy is the server's state. Its fields don't change.
type toy struct {
	nonce string
	log   *os.File // one write a line, so calls don't mix
}

type nothing struct{}

type echoArgs struct {
	Nonce string `json:"nonce" jsonschema:"the nonce that toy_nonce gave"`
}

type slowArgs struct {
	Ticks int `json:"ticks" jsonschema:"how many reports to make"`
}

// Call is one line of the log.
type Call struct {
	Tool     string `json:"tool"`
	Client   string `json:"client"`
	Protocol string `json:"protocol"`
	Outcome  string `json:"outcome"`
}

func (t toy) record(r *mcp.CallToolRequest, outcome string) {
	c := Call{Tool: r.Params.Name, Protocol: r.ProtocolVersion(), Outcome: outcome}
	if info := r.ClientInfo(); info != nil {
		c.Client = info.Name + "/" + info.Version
	}
	line, err := json.Marshal(c)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := t.log.Write(append(line, '\n')); err != nil {
		log.Fatal(err)
	}
}

func text(format string, a ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, a...)}}}
}

func (t toy) giveNonce(_ context.Context, r *mcp.CallToolRequest, _ nothing) (*mcp.CallToolResult, any, error) {
	t.record(r, "ok")
	return text("nonce=%s", t.nonce), nil, nil
}

func (t toy) echo(_ context.Context, r *mcp.CallToolRequest, in echoArgs) (*mcp.CallToolResult, any, error) {
	if in.Nonce != t.nonce {
		t.record(r, "wrong nonce")
		return nil, nil, fmt.Errorf("wrong nonce %q; call toy_nonce first", in.Nonce)
	}
	t.record(r, "ok")
	return text("echoed=%s.", t.nonce), nil, nil
}

func (t toy) slow(ctx context.Context, r *mcp.CallToolRequest, in slowArgs) (*mcp.CallToolResult, any, error) {
	clock := time.NewTicker(tick)
	defer clock.Stop()
	token := r.Params.GetProgressToken()
	for n := range in.Ticks {
		select {
		case <-ctx.Done():
			t.record(r, "cancelled")
			return nil, nil, ctx.Err()
		case <-clock.C:
		}
		if token == nil {
			continue
		}
		err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(n + 1), Total: float64(in.Ticks), Message: fmt.Sprintf("tick %d", n+1)})
		if err != nil {
			t.record(r, "progress: "+err.Error())
			return nil, nil, err
		}
	}
	t.record(r, "ok")
	return text("counted=%d", in.Ticks), nil, nil
}

func (t toy) fail(_ context.Context, r *mcp.CallToolRequest, _ nothing) (*mcp.CallToolResult, any, error) {
	t.record(r, "failed")
	return nil, nil, fmt.Errorf("DENIED toy: this tool always fails")
}
