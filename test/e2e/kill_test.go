//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftmesh/weft/test/e2e/fixture"
	"github.com/weftmesh/weft/test/e2e/world"
)

// kills is how often each side is killed; -short takes a tenth.
const kills = 50

// burst is how many calls run while a kill is aimed at them.
const burst = 6

// spread is the time within which the kill falls, about that of a burst.
const spread = 400 * time.Millisecond

// attempt is a call of the run: the file only it writes, and how it ended.
type attempt struct {
	file string
	code int
	text string
}

// killRun is a session under fire: what was tried in it.
type killRun struct {
	id       string
	attempts []attempt
}

// TestKillRequester and TestKillProvider: kill -9 at random points of a run of
// calls, 50 times. The session goes on or ends as aborted; every executed call
// is in the log once; nothing acknowledged is missing; the receipt verifies
// and says what is unknown.
func TestKillRequester(t *testing.T) {
	t.Parallel()
	testKill(t, func(p *pair) *world.Node { return p.req })
}

func TestKillProvider(t *testing.T) {
	t.Parallel()
	testKill(t, func(p *pair) *world.Node { return p.prov })
}

func testKill(t *testing.T, victim func(*pair) *world.Node) {
	p := newPair(t, fixture.Small)
	p.req.PinPorts(t)
	p.prov.PinPorts(t)
	flags := []string{"--write", "--for", "2h", "--calls", "100000", "--rate", "60000"}
	run := &killRun{id: p.open(t, flags...).SessionID}
	runs := []*killRun{run}
	rounds, seed := kills, rand.Uint64()
	if testing.Short() {
		rounds = kills / 10
	}
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	n := victim(p)
	for round := range rounds {
		after := time.NewTimer(time.Duration(rng.Int64N(int64(spread))))
		var wg sync.WaitGroup
		procs := make([]*world.Process, burst)
		names := make([]string, burst)
		for i := range burst {
			names[i] = fmt.Sprintf("k%d-%d.txt", round, i)
			procs[i] = startWrite(t, p, run.id, names[i])
		}
		wg.Go(func() {
			<-after.C
			n.Kill9(t)
			n.Up(t)
		})
		wg.Wait()
		for i, proc := range procs {
			code := proc.Wait(t, 2*world.Patience)
			run.attempts = append(run.attempts, attempt{names[i], code, proc.Stdout() + proc.Stderr()})
		}
		// It goes on, or it ended as aborted, and both sides say the same.
		state := stateAt(t, p.req, run.id, "open", "aborted").State
		stateAt(t, p.prov, run.id, state)
		if state == "open" {
			continue
		}
		run = &killRun{id: p.open(t, flags...).SessionID}
		runs = append(runs, run)
	}
	t.Logf("%d kills of %s: %d sessions", rounds, n.Name, len(runs))
	for _, r := range runs {
		checkRun(t, p, r)
	}
}

// startWrite starts a call that creates one file.
func startWrite(t *testing.T, p *pair, id, name string) *world.Process {
	t.Helper()
	args, err := json.Marshal(object{"path": "shop/" + name, "content": "once " + name, "mode": "create"})
	if err != nil {
		t.Fatal(err)
	}
	return p.prov.Start(t, world.Spec{Stdin: strings.NewReader("")}, "call", id, "write_file", string(args), "--json")
}

// checkRun compares what clients were told, what is on disk and what the log
// and the receipt say.
func checkRun(t *testing.T, p *pair, run *killRun) {
	t.Helper()
	if show(t, p.req, run.id).State == "open" {
		p.stop(t, run.id)
	}
	_, v := receipt(t, p.req, run.id)
	_, records := export(t, p.req, run.id)
	_, theirs := export(t, p.prov, run.id)
	if len(theirs) > len(records) {
		t.Errorf("the provider's log of %d records is longer than the requester's of %d", len(theirs), len(records))
	}
	var ok, unknown, refused uint64
	for _, r := range exactlyOnce(t, records) {
		switch r.Verdict {
		case "ok":
			ok++
		case "unknown":
			unknown++
		case "failed":
			t.Errorf("a call failed, as one that ran twice would: %+v", r)
		}
	}
	if v.Unknown != unknown {
		t.Errorf("the receipt says %d unknown, the log %d", v.Unknown, unknown)
	}
	var files, told uint64
	for _, a := range run.attempts {
		content, err := os.ReadFile(filepath.Join(p.repo.Dir, a.file))
		exists := err == nil
		if exists {
			files++
		}
		if exists && string(content) != "once "+a.file {
			t.Errorf("%s holds %q: a torn write", a.file, content)
		}
		switch {
		case a.code == 0 && !exists:
			t.Errorf("%s was acknowledged and is not there: %s", a.file, a.text)
		case a.code == 0:
			told++
		case a.code == denied:
			refused++
			t.Errorf("%s was refused, though it was granted: %s", a.file, a.text)
		case a.code != down && a.code != 1:
			t.Errorf("%s ended with exit code %d: %s", a.file, a.code, a.text)
		}
	}
	if told > ok {
		t.Errorf("%d calls were acknowledged, the log has %d as ok", told, ok)
	}
	if files < ok || files > ok+unknown {
		t.Errorf("%d files are there; the log says %d ok and %d unknown", files, ok, unknown)
	}
	t.Logf("session %s: %d calls tried, %d acknowledged, %d files, log %d ok %d unknown, %d refused, state %s, unacked %d",
		run.id, len(run.attempts), told, files, ok, unknown, refused, v.State, v.Unacked)
}
