package provider_test

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// text is what a result says, which must be one text block.
func text(t testing.TB, r *mcp.CallToolResult) string {
	t.Helper()
	if len(r.Content) == 0 {
		t.Fatal("a result without content")
	}
	c, ok := r.Content[0].(*mcp.TextContent)
	if !ok {
		t.Fatalf("the first block is %T", r.Content[0])
	}
	return c.Text
}
