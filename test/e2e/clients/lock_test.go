//go:build unix

package clients

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/weftmesh/weft/test/e2e/world"
)

// TestLocks keeps the lock files free of hosts: whose registry is used is the
// machine's matter, what is installed is pinned by its hash.
func TestLocks(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"npm", "npm-more"} {
		b, err := os.ReadFile(filepath.Join(world.Root(t), "test", "e2e", "testdata", name, "package-lock.json"))
		if err != nil {
			t.Fatal(err)
		}
		var lock struct {
			Packages map[string]struct{ Resolved, Integrity string }
		}
		if err := json.Unmarshal(b, &lock); err != nil {
			t.Fatal(err)
		}
		if len(lock.Packages) < 2 {
			t.Fatalf("%s: the lock file is empty", name)
		}
		for path, p := range lock.Packages {
			if p.Resolved != "" {
				t.Errorf("%s: %s names a host; delete its resolved field", name, path)
			}
			if path != "" && p.Integrity == "" {
				t.Errorf("%s: %s has no integrity hash", name, path)
			}
		}
	}
}
