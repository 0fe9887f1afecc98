package sessions_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/node/sessions"
	"github.com/weftmesh/weft/workspace/receipt"
)

// wantKind checks what kind of error the API gave, and its code.
func wantKind(t testing.TB, what string, err error, kind api.Kind, code string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", what)
		return
	}
	if e := api.From(err); e.Kind != kind || code != "" && e.Code != code || e.Hint == "" {
		t.Errorf("%s: %+v, want %v %s", what, e, kind, code)
	}
}

// TestAcceptAtOnce: however many accept at the same time, there is one
// session.
func TestAcceptAtOnce(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	id := p.offer(nil)
	errs := make([]error, 8)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = p.prov.api.Post(t.Context(), "/v1/offers/"+id+"/accept", nil, nil) })
	}
	all.Wait()
	accepted := 0
	for _, err := range errs {
		if err == nil {
			accepted++
			continue
		}
		wantKind(t, "accepted again", err, api.Conflict, "")
	}
	if accepted != 1 {
		t.Errorf("accepted %d times", accepted)
	}
	if out, err := p.call(id, "stat", object{"path": "app/a.txt"}); err != nil || out.Verdict != "ok" {
		t.Errorf("a call: %+v, %v", out, err)
	}
	wantKind(t, "accepted once more", p.prov.api.Post(t.Context(), "/v1/offers/"+id+"/accept", nil, nil), api.Conflict, "")
	var offers sessions.Offers
	p.must(p.prov.api.Get(t.Context(), "/v1/offers", &offers))
	if len(offers.Offers) != 0 {
		t.Errorf("still offered: %+v", offers.Offers)
	}
}

// TestDecline: a declined offer ends on both sides, with a receipt.
func TestDecline(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	id := p.offer(nil)
	p.must(p.prov.api.Post(t.Context(), "/v1/offers/"+id+"/decline", sessions.StopRequest{Reason: "no time"}, nil))
	p.until("both have signed", func() bool { return p.show(p.req, id).Cosigned && p.show(p.prov, id).Cosigned })
	if v := p.show(p.req, id); v.State != "closed" || !strings.Contains(v.Reason, "no time") || v.Calls != 0 {
		t.Errorf("at the requester: %+v", v)
	}
}

// TestCalls: calls by script, and everything that is in the way of one.
func TestCalls(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	waiting := p.offer(func(in *sessions.ShareRequest) { in.Roots[0].Name = "later" })
	id := p.open(nil)
	out, err := p.call(id, "read_file", object{"path": "app/a.txt"})
	if err != nil || out.Verdict != "ok" || out.Kind != "text" || !strings.HasSuffix(out.Text, "\nalpha\nbeta\n") || out.Data != nil {
		t.Errorf("text: %+v, %v", out, err)
	}
	out, err = p.call(id, "read_file", object{"path": "app/pic.png"})
	if err != nil || out.Kind != "image" || out.MIME != "image/png" || string(out.Data) != string(pixel) || strings.Contains(out.Text, "\n") {
		t.Errorf("image: %+v, %v", out, err)
	}
	out, err = p.call(id, "write_file", object{"path": "app/n.txt", "mode": "create", "content": "new"})
	if err != nil || out.Verdict != "ok" {
		t.Errorf("write: %+v, %v", out, err)
	}
	if got, err := os.ReadFile(filepath.Join(p.folder, "n.txt")); err != nil || string(got) != "new" {
		t.Errorf("wrote %q, %v", got, err)
	}
	for _, tc := range []struct {
		tool string
		args any
		code string
	}{
		{"read_file", object{"path": "app/.env"}, "secret_path"},
		{"shell", object{}, "unknown_tool"}, // a script's mistake is logged too
		{"write_file", object{"path": "app/m.txt", "mode": "create"}, "bad_arguments"},
		{"stat", object{}, "bad_arguments"},
		{"run_command", object{"argv": []string{"id"}}, "no_right"},
	} {
		if out, err := p.call(id, tc.tool, tc.args); err != nil || out.Verdict != "denied" || out.Code != tc.code || !strings.HasPrefix(out.Text, "DENIED "+tc.code) {
			t.Errorf("%s %v: %+v, %v", tc.tool, tc.args, out, err)
		}
	}
	call := func(who *party, id string) error {
		return who.api.Post(t.Context(), "/v1/sessions/"+id+"/call", sessions.CallRequest{Tool: "stat", Args: []byte(`{"path":"app"}`)}, nil)
	}
	wantKind(t, "not accepted yet", call(p.prov, waiting), api.Conflict, "not_accepted")
	wantKind(t, "from the folder's side", call(p.req, id), api.Conflict, "")
	wantKind(t, "no session", call(p.prov, strings.Repeat("a", 26)), api.NotFound, "")
	wantKind(t, "not an id", call(p.prov, "x"), api.Invalid, "")
	if err := call(p.prov, id[:8]); err != nil {
		t.Errorf("by the beginning of the id: %v", err)
	}
	for _, who := range []*party{p.req, p.prov} {
		_, err := who.api.Upgrade(t.Context(), "/v1/sessions/"+waiting+"/mcp")
		wantKind(t, "an agent for an offer", err, api.Conflict, "")
	}
	// Both sides count the same, and see the paths that the log only commits to.
	p.until("the provider has the whole log", func() bool { return p.show(p.prov, id).LogSize == p.show(p.req, id).LogSize })
	if diff := cmp.Diff(p.log(p.req, id), p.log(p.prov, id)); diff != "" {
		t.Errorf("the two logs: %s", diff)
	}
	p.must(p.req.api.Post(t.Context(), "/v1/sessions/"+id+"/stop", sessions.StopRequest{}, nil))
	p.until("the provider knows", func() bool { return p.show(p.prov, id).State == "killed" })
	wantKind(t, "after the end", call(p.prov, id), api.Denied, "killed")
}

// TestRestarts: either node may restart in the middle; the session goes on
// without a word from anybody, and both logs and the receipt agree.
func TestRestarts(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	id := p.open(nil)
	for i, who := range []**party{&p.prov, &p.req, &p.prov} {
		if out, err := p.call(id, "read_file", object{"path": "app/a.txt"}); err != nil || out.Verdict != "ok" {
			t.Fatalf("round %d: %+v, %v", i, out, err)
		}
		*who = (*who).restart(t)
	}
	if out, err := p.call(id, "stat", object{"path": "app/a.txt"}); err != nil || out.Verdict != "ok" {
		t.Fatalf("%+v, %v", out, err)
	}
	p.must(p.prov.api.Post(t.Context(), "/v1/sessions/"+id+"/stop", sessions.StopRequest{Reason: "done"}, nil))
	p.until("both have signed", func() bool { return p.show(p.prov, id).Cosigned && p.show(p.req, id).Cosigned })
	if diff := cmp.Diff(p.log(p.req, id), p.log(p.prov, id)); diff != "" {
		t.Errorf("the two logs: %s", diff)
	}
	var mine, theirs []byte
	p.must(p.req.api.Get(t.Context(), "/v1/sessions/"+id+"/receipt", &mine))
	p.must(p.prov.api.Get(t.Context(), "/v1/sessions/"+id+"/receipt", &theirs))
	for name, raw := range map[string][]byte{"requester": mine, "provider": theirs} {
		v, err := receipt.Verify(raw)
		if err != nil || !v.Cosigned || v.Calls != 4 {
			t.Errorf("the %s's receipt: %+v, %v", name, v, err)
		}
	}
}

// TestHTTPClients: clients of the 2025 revisions are counted, can end, and
// don't hold up the node's end.
func TestHTTPClients(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	id := p.open(nil)
	url := p.listen(t, id)
	hello := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	old := map[string]string{"Mcp-Protocol-Version": "", "Mcp-Method": ""}
	const most = 128
	var ids []string
	for i := range most {
		got := post(t, url, old, hello)
		if got.status != http.StatusOK || got.header.Get("Mcp-Session-Id") == "" {
			t.Fatalf("client %d: %d %.200q", i, got.status, got.body)
		}
		ids = append(ids, got.header.Get("Mcp-Session-Id"))
	}
	got := post(t, url, old, hello)
	var e struct {
		Error struct{ Code, Message, Hint string }
	}
	if err := json.Unmarshal([]byte(got.body), &e); err != nil || got.status != http.StatusTooManyRequests || e.Error.Hint == "" {
		t.Errorf("client %d: %d %.200q, %v", most+1, got.status, got.body, err)
	}
	// Requests that stand alone are not counted.
	if got := post(t, url, nil, discover); got.status != http.StatusOK {
		t.Errorf("a 2026-07-28 client: %d %.200q", got.status, got.body)
	}
	// A client that ends makes room.
	end := func(session string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Mcp-Session-Id", session)
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		resp, err := transport.RoundTrip(req)
		if err != nil || resp.StatusCode/100 != 2 {
			t.Fatalf("end of a client: %v, %v", resp, err)
		}
		resp.Body.Close()
	}
	end(ids[0])
	if got := post(t, url, old, hello); got.status != http.StatusOK {
		t.Errorf("after one ended: %d %.200q", got.status, got.body)
	}
	gone := map[string]string{"Mcp-Protocol-Version": "2025-11-25", "Mcp-Method": "", "Mcp-Session-Id": ids[0]}
	list := `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	if got := post(t, url, gone, list); got.status != http.StatusNotFound {
		t.Errorf("a client that ended: %d %.200q", got.status, got.body)
	}

	// One that listens, as stock clients do, doesn't hold up the node's end.
	end(ids[1])
	p.connect(t, overHTTP, "2025-06-18", id)
	began := time.Now()
	p.must(p.prov.node.Close())
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the node took %v to stop", took)
	}
}
