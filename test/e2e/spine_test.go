//go:build unix

package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftmesh/weft/test/e2e/clients"
	"github.com/weftmesh/weft/test/e2e/fixture"
	"github.com/weftmesh/weft/test/e2e/world"
)

// toolNames are the tools of a session, with its grant of everything.
var toolNames = []string{"edit_file", "glob", "grep", "job_kill", "job_output", "list_dir", "read_file",
	"run_command", "stat", "workspace_info", "write_file"}

var (
	hashRE = regexp.MustCompile(`sha256=([0-9a-f]{64})`)
	jobRE  = regexp.MustCompile(`job=(\S+)`)
)

// agentDouble is a stock client with all that it was ever told, so that one
// look at the end finds a secret anywhere.
type agentDouble struct {
	*clients.Client
	heard strings.Builder
}

func (a *agentDouble) call(t *testing.T, tool string, args any) clients.Result {
	t.Helper()
	r := a.Call(t, tool, args)
	if r.Err != nil {
		t.Fatalf("%s %v: %s", tool, args, r.Err.Message)
	}
	a.heard.WriteString(r.Text)
	for _, p := range r.Progress {
		a.heard.WriteString(p.Message)
	}
	if len(r.StructuredContent) > 0 {
		t.Errorf("%s: a result with structured content, which some agents show instead of the text", tool)
	}
	return r
}

// ok is a call that must succeed and hold the texts.
func (a *agentDouble) ok(t *testing.T, tool string, args any, want ...string) string {
	t.Helper()
	r := a.call(t, tool, args)
	if r.IsError {
		t.Fatalf("%s %v: %s", tool, args, r.Text)
	}
	for _, w := range want {
		if !strings.Contains(r.Text, w) {
			t.Errorf("%s %v: %q is missing in:\n%.2000s", tool, args, w, r.Text)
		}
	}
	return r.Text
}

// denied is a call that must be refused with one of the codes.
func (a *agentDouble) denied(t *testing.T, tool string, args any, codes ...string) {
	t.Helper()
	r := a.call(t, tool, args)
	if !r.IsError || !slices.ContainsFunc(codes, func(c string) bool { return strings.HasPrefix(r.Text, "DENIED "+c) }) {
		t.Errorf("%s %v: want DENIED %v, got %v %q", tool, args, codes, r.IsError, r.Text)
	}
}

// run runs a command to its end, over the job handle when it takes long.
func (a *agentDouble) run(t *testing.T, argv ...string) string {
	t.Helper()
	text := a.ok(t, "run_command", object{"argv": argv, "cwd": "shop", "yield_ms": 30000})
	out := text
	for strings.Contains(text, "state=running") {
		job := jobRE.FindStringSubmatch(text)
		if job == nil {
			t.Fatalf("running, but no job: %s", text)
		}
		text = a.ok(t, "job_output", object{"job": job[1], "wait_ms": 30000})
		out += text
	}
	return out
}

func hashIn(t *testing.T, text string) string {
	t.Helper()
	m := hashRE.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no sha256 in the header of: %.300s", text)
	}
	return m[1]
}

// TestSpine: a stock MCP client lists, reads, searches, fixes the bug and runs
// the tests to green; what was not granted is refused; both sides can prove
// it all.
func TestSpine(t *testing.T) {
	t.Parallel()
	p := newPair(t, fixture.New)
	before := p.repo.Snapshot(t)
	s := p.open(t, "--write", "--run", "go-test", "--for", "1h")
	if s.Roots[0].Name != "shop" || !is(t, s.Provider, p.prov) {
		t.Errorf("weft share: %+v", s)
	}
	a := &agentDouble{Client: clients.Install(t).SDK(t, p.w, clients.Server{Argv: p.prov.Argv("mcp", s.SessionID), Node: p.prov})}
	spineTools(t, a)
	spineRead(t, a, p.repo)
	spineFix(t, a, p.repo)
	spineRefused(t, a)
	a.Close(t)

	for _, secret := range p.repo.Secrets {
		if strings.Contains(a.heard.String(), secret) {
			t.Errorf("the agent heard the secret %q", secret)
		}
	}
	for _, host := range []string{p.w.Dir, p.repo.Outside} {
		if strings.Contains(a.heard.String(), host) {
			t.Errorf("the agent heard the host path %s", host)
		}
	}
	if diff := cmp.Diff([]string{"shop/" + fixture.Bug}, before.Changed(p.repo.Snapshot(t))); diff != "" {
		t.Errorf("changed files (-want +got):\n%s", diff)
	}
	spineProof(t, p, s.SessionID)
}

func spineTools(t *testing.T, a *agentDouble) {
	var names []string
	for _, tool := range a.Tools(t) {
		names = append(names, tool.Name)
		if len(tool.OutputSchema) > 0 {
			t.Errorf("%s has an output schema", tool.Name)
		}
	}
	slices.Sort(names)
	if diff := cmp.Diff(toolNames, names); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	a.ok(t, "workspace_info", nil, "shop", "go-test")
}

func spineRead(t *testing.T, a *agentDouble, repo *fixture.Repo) {
	list := a.ok(t, "list_dir", object{"path": "shop", "depth": 2}, "README.md", "total.go", "说明.md")
	if strings.Contains(list, fixture.Env+"\n") || strings.Contains(list, fixture.Env+" ") {
		t.Errorf("list_dir names the secret file:\n%s", list)
	}
	a.ok(t, "read_file", object{"path": "shop/" + fixture.Big, "start_line": 123456, "max_lines": 2},
		fixture.BigLine(123456), fixture.BigLine(123457), fmt.Sprintf("size=%d", repo.BigSize))
	a.ok(t, "read_file", object{"path": "shop/" + fixture.CRLF}, "eol=crlf", "second line")
	a.ok(t, "read_file", object{"path": "shop/" + fixture.Chinese}, "打九折")
	a.ok(t, "stat", object{"path": "shop/" + fixture.Script}, "755")
	a.ok(t, "glob", object{"path": "shop", "pattern": "**/*.md"}, fixture.Chinese, "README.md")
	a.ok(t, "grep", object{"path": "shop", "pattern": `percentOff\b`}, fixture.Bug)
	if text := a.ok(t, "grep", object{"path": "shop", "pattern": "DB_PASSWORD|diary"}); strings.Contains(text, fixture.Env) {
		t.Errorf("grep found the secret file:\n%s", text)
	}
	if text := a.ok(t, "glob", object{"path": "shop", "pattern": "**/*.log"}); strings.Contains(text, "noise") {
		t.Errorf("glob shows what web/.gitignore hides:\n%s", text)
	}
}

func spineFix(t *testing.T, a *agentDouble, repo *fixture.Repo) {
	if out := a.run(t, "go", "test", "./..."); !strings.Contains(out, "got 0, want 900") || !strings.Contains(out, "exit=1") {
		t.Fatalf("the test should fail by the bug:\n%s", out)
	}
	hash := hashIn(t, a.ok(t, "read_file", object{"path": "shop/" + fixture.Bug}, "percentOff"))
	if hash != repo.Hash(t, fixture.Bug) {
		t.Errorf("hash in the header %s, of the file %s", hash, repo.Hash(t, fixture.Bug))
	}
	edit := object{"path": "shop/" + fixture.Bug, "if_sha256": hash, "edits": []object{{"old": fixture.BugOld, "new": fixture.BugNew}}}
	a.ok(t, "edit_file", edit, "percentOff/100")
	if r := a.call(t, "edit_file", edit); !r.IsError || !strings.HasPrefix(r.Text, "FAILED changed") {
		t.Errorf("the same edit again: %v %q", r.IsError, r.Text)
	}
	if out := a.run(t, "go", "test", "./..."); !strings.Contains(out, "ok") || !strings.Contains(out, "exit=0") {
		t.Fatalf("the test is not green:\n%s", out)
	}
}

func spineRefused(t *testing.T, a *agentDouble) {
	a.denied(t, "read_file", object{"path": "shop/" + fixture.Env}, "secret_path")
	a.denied(t, "read_file", object{"path": "shop/.env.none"}, "secret_path")
	a.denied(t, "write_file", object{"path": "shop/.env.local", "content": "X=1", "mode": "create"}, "secret_path")
	// By name a link is as any other file; what it leads to decides.
	a.denied(t, "read_file", object{"path": "shop/" + fixture.LinkSecret}, "secret_path", "special_file")
	a.denied(t, "read_file", object{"path": "shop/" + fixture.LinkOut}, "outside_grant", "special_file")
	a.denied(t, "write_file", object{"path": "shop/../private/x", "content": "x", "mode": "create"}, "bad_path")
	a.denied(t, "write_file", object{"path": "/etc/x", "content": "x", "mode": "create"}, "bad_path")
	a.denied(t, "write_file", object{"path": "private/x", "content": "x", "mode": "create"}, "outside_grant")
	a.denied(t, "write_file", object{"path": "shop/.git/hooks/pre-commit", "content": "x", "mode": "create"}, "secret_path", "outside_grant", "no_right")
	a.denied(t, "run_command", object{"argv": []string{"curl", "http://127.0.0.1"}, "cwd": "shop"}, "command_not_granted")
	a.denied(t, "run_command", object{"argv": []string{"go", "test", "-exec", "/bin/sh", "./..."}, "cwd": "shop"}, "command_not_granted")
	a.denied(t, "read_file", object{"path": "shop/README.md", "Path": "shop/.env"}, "bad_arguments")
	if r := a.Call(t, "no_such_tool", nil); r.Err == nil && !r.IsError {
		t.Errorf("an unknown tool was called: %q", r.Text)
	}
}

// spineProof: receipts, logs and a proof of both sides verify offline and
// agree, and every changed byte is found.
func spineProof(t *testing.T, p *pair, id string) {
	shown := show(t, p.req, id)
	if shown.Refused < 12 || shown.Allowed < 12 || shown.Calls != shown.Allowed+shown.Refused {
		t.Errorf("counted: %+v", shown)
	}
	p.stop(t, id)
	reqFile, reqV := receipt(t, p.req, id)
	provFile, provV := receipt(t, p.prov, id)
	if diff := cmp.Diff(reqV, provV); diff != "" {
		t.Errorf("the receipts differ (-requester +provider):\n%s", diff)
	}
	if !is(t, reqV.Requester, p.req) || !is(t, reqV.Provider, p.prov) || reqV.Unknown != 0 || reqV.Unacked != 0 {
		t.Errorf("receipt: %+v", reqV)
	}
	reqLog, records := export(t, p.req, id)
	provLog, theirs := export(t, p.prov, id)
	if diff := cmp.Diff(records, theirs); diff != "" {
		t.Errorf("the logs differ (-requester +provider):\n%s", diff)
	}
	exactlyOnce(t, records)
	edit := slices.IndexFunc(records, func(r record) bool { return r.Type == "call" && r.Tool == "edit_file" && r.Verdict == "allowed" })
	if edit < 0 {
		t.Fatal("no record of the edit")
	}

	// Offline: no node has this home, no daemon runs on it.
	nobody := p.w.Node(t, "carol", world.Config{Stopped: true})
	for _, n := range []*world.Node{p.req, p.prov} {
		n.Stop(t)
	}
	for _, pairOf := range [][2]string{{reqFile, reqLog}, {provFile, provLog}, {reqFile, provLog}} {
		nobody.Run(t, "receipt", "verify", pairOf[0], "--json").OK(t)
		nobody.Run(t, verifyLog(pairOf[0], pairOf[1])...).OK(t)
	}
	p.req.Up(t)
	proof := save(t, p, "edit.proof", p.req.Run(t, "receipt", "prove", id, "--seq", fmt.Sprint(records[edit].Seq)).OK(t).Stdout)
	checkProof := func(proof, receipt string) []string {
		return []string{"receipt", "check", proof, "--receipt", receipt, "--json"}
	}
	nobody.Run(t, "receipt", "check", proof, "--json").OK(t)
	nobody.Run(t, checkProof(proof, provFile)...).OK(t)

	tamper(t, p, nobody, reqFile, func(f string) []string { return []string{"receipt", "verify", f, "--json"} })
	tamper(t, p, nobody, reqLog, func(f string) []string { return verifyLog(reqFile, f) })
	tamper(t, p, nobody, proof, func(f string) []string { return checkProof(f, provFile) })
}
