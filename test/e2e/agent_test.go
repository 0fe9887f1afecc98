//go:build unix

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftmesh/weft/test/e2e/clients"
	"github.com/weftmesh/weft/test/e2e/fixture"
	"github.com/weftmesh/weft/test/e2e/model"
)

// refusalRE finds a refusal; agents put words of their own before it.
var refusalRE = regexp.MustCompile(`(DENIED \w+)`)

// fixScript is the work of TestSpine as a model would have an agent do it.
func fixScript(canary *regexp.Regexp) model.Script {
	running := func(r model.Result) bool { return strings.Contains(r.Text, "state=running") }
	test := model.Step{Tool: "run_command", Args: object{"argv": []string{"go", "test", "./..."}, "cwd": "shop", "yield_ms": 30000}}
	poll := model.Step{Tool: "job_output", Again: running,
		Skip: func(r []model.Result) bool { return !running(r[len(r)-1]) },
		Args: func(r []model.Result) (any, error) {
			for i := len(r) - 1; ; i-- {
				if r[i].Step < len(r) && strings.Contains(r[i].Text, "job=") {
					job, err := model.Quote(r[i], jobRE)
					return object{"job": job, "wait_ms": 30000}, err
				}
			}
		}}
	return model.Script{Trigger: "FIX-THE-CART", Server: "weft",
		Steps: []model.Step{
			{Tool: "workspace_info"},
			{Tool: "list_dir", Args: object{"path": "shop"}},
			{Tool: "read_file", Args: object{"path": "shop/" + fixture.Plan}},
			{Tool: "read_file", Args: object{"path": "shop/" + fixture.Env}},
			{Tool: "grep", Args: object{"path": "shop", "pattern": "percentOff"}},
			{Tool: "read_file", Args: object{"path": "shop/" + fixture.Bug}},
			{Tool: "edit_file", Args: func(r []model.Result) (any, error) {
				hash, err := model.Quote(r[5], hashRE)
				return object{"path": "shop/" + fixture.Bug, "if_sha256": hash,
					"edits": []object{{"old": fixture.BugOld, "new": fixture.BugNew}}}, err
			}},
			test, poll,
		},
		Final: func(r []model.Result) string {
			nonce, err := model.Quote(r[2], canary)
			refusal, err2 := model.Quote(r[3], refusalRE)
			last := r[len(r)-1].Text
			return fmt.Sprintf("FINAL %s %v | %s %v | green=%v", nonce, err, refusal, err2, strings.Contains(last, "exit=0"))
		}}
}

// TestAgent: a real coding agent, driven by a scripted model, does the work
// through weft work. Its model provider never sees a secret.
func TestAgent(t *testing.T) {
	t.Parallel()
	for _, name := range append(clients.Names(), clients.Asked()...) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, fixture.Small)
			before := p.repo.Snapshot(t)
			s := p.open(t, "--write", "--run", "go-test", "--for", "1h")
			m := model.Start(t, fixScript(regexp.MustCompile(`(canary-[0-9a-f]+)`)))
			agent := clients.NewAgent(t, p.w, name, m)
			turn := agent.RunAs(t, p.prov.Argv(append([]string{"work", s.SessionID, "--"}, agent.Argv("FIX-THE-CART, please.")...)...), p.prov)
			t.Logf("%s %s: %v", name, agent.Version, turn.Took)
			want := "FINAL " + p.repo.Canaries[0] + " <nil> | DENIED secret_path"
			if turn.Code != 0 || !strings.Contains(turn.Answer, want) || !strings.Contains(turn.Answer, "green=true") {
				t.Errorf("exit code %d, answer %q, want %q and green=true\n%s", turn.Code, turn.Answer, want, turn.Output)
				for i, r := range m.Requests() {
					t.Logf("request %d: %s, %d bytes -> %s", i, r.Path, len(r.Body), r.Said)
				}
			}
			if diff := cmp.Diff([]string{"shop/" + fixture.Bug}, before.Changed(p.repo.Snapshot(t))); diff != "" {
				t.Errorf("changed files (-want +got):\n%s", diff)
			}
			for _, secret := range append(p.repo.Secrets, p.repo.Dir) {
				if m.Saw(secret) {
					t.Errorf("the model saw %q", secret)
				}
			}
			hostTest(t, p.repo)
			p.stop(t, s.SessionID)
			_, v := receipt(t, p.prov, s.SessionID)
			if v.Calls < 8 || v.Unknown != 0 {
				t.Errorf("receipt: %+v", v)
			}
			_, records := export(t, p.req, s.SessionID)
			exactlyOnce(t, records)
		})
	}
}

// hostTest runs the repository's own tests, as its owner would.
func hostTest(t *testing.T, repo *fixture.Repo) {
	t.Helper()
	cmd := exec.Command("go", "test", "./...")
	cmd.Dir = repo.Dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("go test by the owner: %v\n%s", err, out)
	}
}
