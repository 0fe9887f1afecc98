//go:build unix

package clients

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftmesh/weft/test/e2e/model"
	"github.com/weftmesh/weft/test/e2e/world"
)

func TestMain(m *testing.M) { os.Exit(world.Main(m)) }

// toy is a toy server with its nonce and its log of calls.
type toy struct {
	Server
	nonce string
	log   string
}

func newToy(t *testing.T, w *world.World, nonce string) toy {
	t.Helper()
	log := filepath.Join(w.Dir, "toy-"+nonce+".log")
	return toy{
		Server: Server{Argv: []string{world.Build(t, "test/e2e/toy")}, Env: []string{"TOY_NONCE=" + nonce, "TOY_LOG=" + log}},
		nonce:  nonce, log: log,
	}
}

// call is a line of the toy's log.
type call struct{ Tool, Client, Protocol, Outcome string }

func (s toy) calls(t *testing.T) []call {
	t.Helper()
	b, err := os.ReadFile(s.log)
	if err != nil {
		t.Fatal(err)
	}
	var calls []call
	for line := range strings.Lines(string(b)) {
		var c call
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		calls = append(calls, c)
	}
	return calls
}

func outcomes(calls []call) []string {
	var s []string
	for _, c := range calls {
		s = append(s, c.Tool+" "+c.Outcome)
	}
	return s
}

func TestSDK(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	s := newToy(t, w, "sdk1")
	c := Install(t).SDK(t, w, s.Server)
	if c.Name != "toy" || c.Protocol != "2025-11-25" {
		t.Errorf("connected to %q with protocol %q", c.Name, c.Protocol)
	}
	var names []string
	for _, tool := range c.Tools(t) {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"toy_echo", "toy_fail", "toy_nonce", "toy_slow"}, names); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	if r := c.Call(t, "toy_nonce", nil); r.Err != nil || r.IsError || r.Text != "nonce=sdk1" {
		t.Errorf("toy_nonce: %+v", r)
	}
	if r := c.Call(t, "toy_fail", nil); r.Err != nil || !r.IsError || !strings.HasPrefix(r.Text, "DENIED toy") {
		t.Errorf("toy_fail: %+v", r)
	}
	if r := c.Call(t, "toy_none", nil); r.Err == nil && !r.IsError {
		t.Errorf("unknown tool: %+v", r)
	}
	if _, fail := c.Request(t, "no/such", nil); fail == nil {
		t.Error("an unknown method was answered")
	}
	if r := c.Call(t, "toy_slow", map[string]any{"ticks": 3}); len(r.Progress) == 0 || r.Progress[0].Message != "tick 1" || r.Text != "counted=3" {
		t.Errorf("toy_slow: %+v", r)
	}

	slow := c.Begin(t, "toy_slow", map[string]any{"ticks": 1_000_000})
	slow.NextProgress(t)
	if r := c.Call(t, "toy_nonce", nil); r.Text != "nonce=sdk1" {
		t.Errorf("a call beside a slow one: %+v", r)
	}
	slow.Cancel(t)
	if r := slow.Wait(t); r.Err == nil {
		t.Errorf("the cancelled call gave a result: %+v", r)
	}
	world.Until(t, world.Patience, "the server sees the cancellation", func() string {
		got := outcomes(s.calls(t))
		if !slices.Contains(got, "toy_slow cancelled") {
			return fmt.Sprint(got)
		}
		return ""
	})
	c.Close(t)
}

func TestInspector(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	set := Install(t)
	s := newToy(t, w, "insp1")
	raw, err := set.Inspect(t, w, s.Server, "tools/list", "", nil)
	if err != nil || !strings.Contains(string(raw), "toy_echo") {
		t.Fatalf("tools/list: %s, %v", raw, err)
	}
	raw, err = set.Inspect(t, w, s.Server, "tools/call", "toy_echo", map[string]any{"nonce": "insp1"})
	if err != nil || !strings.Contains(string(raw), "echoed=insp1") {
		t.Fatalf("toy_echo: %s, %v", raw, err)
	}
	raw, err = set.Inspect(t, w, s.Server, "tools/call", "toy_echo", map[string]any{"nonce": "wrong"})
	if err != nil || !strings.Contains(string(raw), `"isError": true`) {
		t.Fatalf("toy_echo with a wrong nonce: %s, %v", raw, err)
	}
}

// TestAgents shows that each real agent, driven by the scripted model alone,
// calls tools, passes on what they gave, computes an argument from it and
// quotes it in the end.
func TestAgents(t *testing.T) {
	t.Parallel()
	for _, name := range append(Names(), Asked()...) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			s := newToy(t, w, "nonce7"+name)
			found := regexp.MustCompile(`nonce=(\w+)`)
			echoed := regexp.MustCompile(`echoed=(\w+)`)
			m := model.Start(t, model.Script{
				Trigger: "RUN-E2E", Server: "toy",
				Steps: []model.Step{
					{Tool: "toy_fail"},
					{Tool: "toy_nonce"},
					{Tool: "toy_echo", Args: func(r []model.Result) (any, error) {
						n, err := model.Quote(r[1], found)
						return map[string]string{"nonce": n}, err
					}},
				},
				Final: func(r []model.Result) string {
					n, err := model.Quote(r[2], echoed)
					return fmt.Sprintf("FINAL %s %v fail=%q", n, err, r[0].Text)
				},
			})
			a := NewAgent(t, w, name, m)
			a.Use(t, "toy", s.Server)
			turn := a.Run(t, "RUN-E2E: do as the script says.")
			if turn.Code != 0 || !strings.Contains(turn.Answer, "FINAL "+s.nonce+" <nil>") || !strings.Contains(turn.Answer, "DENIED toy") {
				t.Errorf("exit code %d, answer %q\noutput: %s", turn.Code, turn.Answer, turn.Output)
				for i, r := range m.Requests() {
					t.Logf("request %d: %s, %d bytes -> %s", i, r.Path, len(r.Body), r.Said)
				}
			}
			calls := s.calls(t)
			if diff := cmp.Diff([]string{"toy_fail failed", "toy_nonce ok", "toy_echo ok"}, outcomes(calls)); diff != "" {
				t.Errorf("calls at the server (-want +got):\n%s", diff)
			}
			if !m.Saw(s.nonce) {
				t.Error("the model never saw the nonce")
			}
			if len(calls) > 0 {
				t.Logf("%s %s: %v, client %s, protocol %s", name, a.Version, turn.Took, calls[0].Client, calls[0].Protocol)
			}
		})
	}
}
