package sessionlog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func numbered(recs ...Record) []Record {
	for i := range recs {
		recs[i].V, recs[i].Seq, recs[i].Session = Version, uint64(i), testSession
		if recs[i].Time == 0 {
			recs[i].Time = 1_790_000_000_000
		}
	}
	return recs
}

// TestOrder is the attack table of reference/workspace.md cases 65, 66, 71-74
// at the log's level: what a log can never say.
func TestOrder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		recs []Record
		ok   bool
	}{
		"a whole session":               {story(), true},
		"killed, then refusals":         {[]Record{opened(), ended(Killed), denied("c", "glob", "killed")}, false},
		"killed, late result":           {[]Record{opened(), call("c", "run_command"), ended(Killed), result("c", "run_command", Failed)}, false},
		"aborted with open call":        {[]Record{opened(), call("c", "run_command"), ended(Aborted)}, true},
		"denied twice under one id":     {[]Record{opened(), denied("c", "glob", "bad_path"), denied("c", "glob", "bad_path")}, true},
		"denied, with result":           {[]Record{opened(), denied("c", "glob", "bad_path"), deniedResult("c", "glob")}, true},
		"allowed after denied":          {[]Record{opened(), denied("c", "glob", "rate_limited"), call("c", "glob")}, true},
		"call before opened":            {[]Record{call("c", "glob")}, false},
		"opened twice":                  {[]Record{opened(), opened()}, false},
		"call runs twice":               {[]Record{opened(), call("c", "glob"), call("c", "glob")}, false},
		"call runs again after result":  {[]Record{opened(), call("c", "glob"), result("c", "glob", OK), call("c", "glob")}, false},
		"id reused by another tool":     {[]Record{opened(), call("c", "glob"), result("c", "glob", OK), call("c", "grep")}, false},
		"result without call":           {[]Record{opened(), result("c", "glob", OK)}, false},
		"result twice":                  {[]Record{opened(), call("c", "glob"), result("c", "glob", OK), result("c", "glob", OK)}, false},
		"unknown, then ok":              {[]Record{opened(), call("c", "glob"), result("c", "glob", Unknown), result("c", "glob", OK)}, false},
		"result of another tool":        {[]Record{opened(), call("c", "glob"), result("c", "grep", OK)}, false},
		"ok for a denied call":          {[]Record{opened(), denied("c", "glob", "bad_path"), result("c", "glob", OK)}, false},
		"denied result, not right away": {[]Record{opened(), denied("c", "glob", "bad_path"), {Type: Path}, deniedResult("c", "glob")}, false},
		"denied result twice":           {[]Record{opened(), denied("c", "glob", "bad_path"), deniedResult("c", "glob"), deniedResult("c", "glob")}, false},
		"allowed after killed":          {[]Record{opened(), ended(Killed), call("c", "glob")}, false},
		"allowed after expired":         {[]Record{opened(), ended(Expired), call("c", "glob")}, false},
		"ended twice":                   {[]Record{opened(), ended(Killed), ended(Closed)}, false},
		"resumed after killed":          {[]Record{opened(), ended(Killed), {Type: Resumed}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := NewReplay(testSession)
			var err error
			for _, r := range numbered(c.recs...) {
				var leaf []byte
				if leaf, err = r.encode(); err != nil {
					t.Fatal(err)
				}
				if _, err = p.Add(leaf); err != nil {
					break
				}
			}
			if (err == nil) != c.ok {
				t.Errorf("err %v, want ok %v", err, c.ok)
			}
			if err != nil && !errors.Is(err, ErrRecord) {
				t.Errorf("not ErrRecord: %v", err)
			}
		})
	}
}

func deniedResult(id, tool string) Record {
	return Record{Type: Result, Call: id, Tool: tool, Verdict: Denied, Code: "bad_path"}
}

func TestTotals(t *testing.T) {
	t.Parallel()
	ta := newTally(testSession)
	for _, r := range numbered(story()...) {
		if _, err := ta.add(r); err != nil {
			t.Fatal(err)
		}
	}
	want := Totals{Session: testSession, Grant: testGrant, OpenedAt: 1_790_000_000_000, Sandbox: "bubblewrap 0.8.0",
		End: Closed, ClosedAt: 1_790_000_000_004, Records: 12, Calls: 5, Unknown: 1,
		BytesRead: 4196, BytesWritten: 2048, Redacted: 1,
		Counts: Counts{"read_file": {OK: 1, Denied: 1, Unknown: 1}, "edit_file": {Failed: 1}, "write_file": {OK: 1}}}
	if diff := cmp.Diff(want, ta.sum()); diff != "" {
		t.Error(diff)
	}
}

// TestTallyUndo: any run of adds, taken back, leaves what was there.
func TestTallyUndo(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	ta := newTally(testSession)
	if _, err := ta.add(numbered(opened())[0]); err != nil {
		t.Fatal(err)
	}
	verdicts := []Verdict{OK, Failed, Unknown}
	id := 0
	for range 300 {
		before, open := ta.sum(), len(ta.open)
		last := ta.last
		var undos []func()
		for range rng.IntN(12) {
			tool := fmt.Sprintf("tool%d", rng.IntN(5))
			var r Record
			switch rng.IntN(4) {
			case 0:
				id++
				r = call(fmt.Sprint("c", id), tool)
			case 1:
				r = denied("d", tool, "bad_path")
			case 2:
				r = Record{Type: Path}
			default:
				for open, tool := range ta.calls {
					if tool != "" {
						r = result(open, tool, verdicts[rng.IntN(3)])
						break
					}
				}
				if r.Type == "" {
					continue
				}
			}
			r.Session, r.Seq = testSession, ta.totals.Records
			undo, err := ta.add(r)
			if err != nil {
				t.Fatal(err)
			}
			undos = append(undos, undo)
		}
		if rng.IntN(3) == 0 {
			continue // keep these
		}
		for i := len(undos) - 1; i >= 0; i-- {
			undos[i]()
		}
		if diff := cmp.Diff(before, ta.sum()); diff != "" || len(ta.open) != open || !cmp.Equal(last, ta.last) {
			t.Fatalf("undo left something:\n%s", diff)
		}
	}
}

func TestTooManyTools(t *testing.T) {
	t.Parallel()
	ta := newTally(testSession)
	var err error
	for i, r := range numbered(append([]Record{opened()}, manyTools(200)...)...) {
		if _, err = ta.add(r); err != nil {
			if i < maxTools/2 {
				t.Fatalf("refused at tool %d", i)
			}
			break
		}
	}
	if !errors.Is(err, ErrRecord) {
		t.Errorf("200 tools: %v", err)
	}
}

func manyTools(n int) (out []Record) {
	for i := range n {
		out = append(out, denied("c", fmt.Sprintf("tool%d", i), "no_right"))
	}
	return out
}
