package requester_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weftmesh/weft/protocols/session"
	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/grant"
)

// TestBudgetsSideBySide: calls that run at once can't spend the same bytes of
// writing.
func TestBudgetsSideBySide(t *testing.T) {
	t.Parallel()
	const budget, size = 1 << 20, 900 << 10
	w := newWorld(t, func(g *grant.Grant) { g.Limits.WriteBytes = budget })
	var calls []session.Message
	for i := range 7 {
		calls = append(calls, w.blind("write_file", fmt.Sprintf(`{"path":"app/w%d.txt","mode":"create"}`, i), strings.Repeat("x", size)))
	}
	for _, m := range calls {
		w.send(m, nil)
	}
	written := 0
	for i, r := range w.replies(calls...) {
		switch {
		case r.Verdict == "ok":
			written++
		case r.Code != string(workspace.RateLimited):
			t.Errorf("call %d: %+v", i, r)
		}
		if w.has(fmt.Sprintf("w%d.txt", i)) != (r.Verdict == "ok") {
			t.Errorf("call %d was answered %s, its file says otherwise", i, r.Verdict)
		}
	}
	if used := w.s.View().Used.WriteBytes; written != 1 || used != size {
		t.Errorf("%d writes, %d bytes of a budget of %d", written, used, budget)
	}
}

// TestUsedUpBudgetHoldsEveryTool: when the bytes of reading are used up, no
// tool shows content in another way; and a restart does not give them back.
func TestUsedUpBudgetHoldsEveryTool(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(g *grant.Grant) { g.Limits.ReadBytes = 100 })
	var big strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&big, "line %d of a file\n", i)
	}
	w.put("big.txt", big.String())
	if r, _ := w.ask(w.call("read_file", `{"path":"app/big.txt"}`, nil)); r.Verdict != "ok" {
		t.Fatalf("the first read: %+v", r)
	}
	check := func(when string) {
		for _, c := range [][2]string{
			{"read_file", `{"path":"app/big.txt"}`},
			{"grep", `{"pattern":"line","path":"app"}`},
			{"edit_file", `{"path":"app/big.txt","edits":[{"old":"line ","new":"line  ","all":true}],"dry_run":true}`},
		} {
			r, text := w.ask(w.call(c[0], c[1], nil))
			if r.Code != string(workspace.RateLimited) || strings.Contains(text, "of a file") {
				t.Errorf("%s %s: %s %s, %d bytes", when, c[0], r.Verdict, r.Code, len(text))
			}
		}
	}
	check("at once")
	w.restart()
	check("after a restart")
}

// TestLateSecretIsRedacted: a secret that was written after the session began
// does not leave, wherever a copy of it is.
func TestLateSecretIsRedacted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	first, second := "hq7Zk29vPpXw3RtY", "Vb8mQ2sLx94KtRdn"
	w.put(".env.late", "PASSPHRASE="+first+"\n")
	w.put("out.log", "using "+first+" now\n")
	read := func() string {
		r, text := w.ask(w.call("read_file", `{"path":"app/out.log"}`, nil))
		if r.Verdict != "ok" {
			t.Fatalf("read: %+v", r)
		}
		return text
	}
	if text := read(); strings.Contains(text, first) {
		t.Errorf("shown: %q", text)
	}
	w.put(".env.later", "PASSPHRASE="+second+"\n") // found within a second or two
	w.put("out.log", "using "+second+" now\n")
	began := time.Now()
	w.until("the second one is redacted", func() bool { return !strings.Contains(read(), second) })
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}
