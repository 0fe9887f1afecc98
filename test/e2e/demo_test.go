//go:build unix

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftmesh/weft/test/e2e/world"
)

// TestDemo: the README's first command shows a whole session and exits 0, and
// what it keeps verifies; a directory with something in it is refused.
func TestDemo(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	n := w.Node(t, "nobody", world.Config{Stopped: true})
	keep := filepath.Join(w.Dir, "demo")
	p := n.Start(t, world.Spec{}, "demo", "--json", "--keep", keep)
	if code := p.Wait(t, 3*time.Minute); code != 0 {
		t.Fatalf("exit code %d\n%s\n%s", code, p.Stdout(), p.Stderr())
	}
	seen := map[string]int{}
	for line := range strings.Lines(p.Stdout()) {
		var e struct{ Event, Verdict, Text string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		seen[e.Event]++
		seen[e.Verdict]++
	}
	if seen["step"] != 6 || seen["done"] != 1 || seen["denied"] != 4 || seen["ok"] < 7 {
		t.Errorf("the demo showed %v", seen)
	}
	for _, side := range []string{"requester", "provider"} {
		n.Run(t, "receipt", "verify", filepath.Join(keep, side+"-receipt.json"), "--log", filepath.Join(keep, "session.log"), "--json").OK(t)
	}
	raw, err := os.ReadFile(filepath.Join(keep, "shop", "total.go"))
	if err != nil || !strings.Contains(string(raw), "a + b") {
		t.Errorf("the folder after the demo: %s, %v", raw, err)
	}
	n.Run(t, "demo", "--json", "--keep", keep).Fails(t, conflict)
}
