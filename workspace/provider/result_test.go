package provider_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weftmesh/weft/workspace/provider"
)

// TestResultAsMCP: what an agent reads of an answer. All of it is in content,
// and whatever the requester sent, it is sound JSON that a stock client takes.
func TestResultAsMCP(t *testing.T) {
	t.Parallel()
	png := "\x89PNG\r\n\x1a\n\x00\n\xff"
	for name, tc := range map[string]struct {
		r    provider.Result
		want []mcp.Content
		bad  bool
	}{
		"text": {provider.Result{Verdict: "ok", Kind: "text", Body: []byte("a.txt size=2\nhi\n")},
			[]mcp.Content{&mcp.TextContent{Text: "a.txt size=2\nhi\n"}}, false},
		"empty": {provider.Result{Verdict: "ok", Kind: "text"}, []mcp.Content{&mcp.TextContent{}}, false},
		"image": {provider.Result{Verdict: "ok", Kind: "image", MIME: "image/png", Body: []byte("a.png size=12\n" + png)},
			[]mcp.Content{&mcp.TextContent{Text: "a.png size=12"}, &mcp.ImageContent{Data: []byte(png), MIMEType: "image/png"}}, false},
		"an image that says it is a page": {provider.Result{Verdict: "ok", Kind: "image", MIME: "text/html", Body: []byte("a size=3\n<b>")},
			[]mcp.Content{&mcp.TextContent{Text: "a size=3\n" + base64.StdEncoding.EncodeToString([]byte("<b>"))}}, false},
		"binary": {provider.Result{Verdict: "ok", Kind: "binary", Body: []byte("a.bin size=3\n\x00\xff\n")},
			[]mcp.Content{&mcp.TextContent{Text: "a.bin size=3\nAP8K"}}, false},
		"a header alone": {provider.Result{Verdict: "ok", Kind: "binary", Body: []byte("a.bin size=0")},
			[]mcp.Content{&mcp.TextContent{Text: "a.bin size=0\n"}}, false},
		"refused": {provider.Result{Verdict: "denied", Code: "secret_path", Kind: "text", Body: []byte("DENIED secret_path: no")},
			[]mcp.Content{&mcp.TextContent{Text: "DENIED secret_path: no"}}, true},
		"failed": {provider.Result{Verdict: "failed", Code: "not_found", Kind: "text", Body: []byte("FAILED not_found")},
			[]mcp.Content{&mcp.TextContent{Text: "FAILED not_found"}}, true},
		"unknown": {provider.Result{Verdict: "unknown", Kind: "text", Body: []byte("FAILED unknown")},
			[]mcp.Content{&mcp.TextContent{Text: "FAILED unknown"}}, true},
		"text that isn't": {provider.Result{Verdict: "ok", Kind: "text", Body: []byte("a\xffb\xed\xa0\x80")},
			[]mcp.Content{&mcp.TextContent{Text: "a\uFFFDb\uFFFD"}}, false},
		"a header that isn't text": {provider.Result{Verdict: "ok", Kind: "image", MIME: "image/png", Body: []byte("\xff\nx")},
			[]mcp.Content{&mcp.TextContent{Text: "\uFFFD"}, &mcp.ImageContent{Data: []byte("x"), MIMEType: "image/png"}}, false},
		"the largest text": {provider.Result{Verdict: "ok", Kind: "text", Body: []byte(strings.Repeat("x", 1<<20))},
			[]mcp.Content{&mcp.TextContent{Text: strings.Repeat("x", 1<<20)}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tc.r.MCP()
			if diff := cmp.Diff(tc.want, got.Content); diff != "" {
				t.Error(diff)
			}
			if got.IsError != tc.bad || got.StructuredContent != nil {
				t.Errorf("isError %t, structuredContent %v", got.IsError, got.StructuredContent)
			}
			raw, err := json.Marshal(got)
			if err != nil || !json.Valid(raw) || strings.Contains(string(raw), "structuredContent") {
				t.Errorf("%v: %.200s", err, raw)
			}
		})
	}
	for name, r := range map[string]provider.Result{
		"text":   {Verdict: "ok", Kind: "text", Body: make([]byte, 1<<20+1)},
		"image":  {Verdict: "ok", Kind: "image", MIME: "image/png", Body: make([]byte, 3<<20+1)},
		"header": {Verdict: "ok", Kind: "binary", Body: make([]byte, 1<<20+1)},
	} {
		got := r.MCP()
		if raw, err := json.Marshal(got); err != nil || len(raw) > 1000 || !got.IsError || !strings.HasPrefix(text(t, got), "FAILED too_large") {
			t.Errorf("%s too large: %.200s, %v", name, raw, err)
		}
	}
}
