//go:build unix

package world

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// World is one test's set of homes and processes.
type World struct {
	// Dir holds everything of the world.
	Dir string

	mu    sync.Mutex // guards below
	procs []*Process
	nodes []*Node
}

// New makes a world that ends with the test.
func New(t testing.TB) *World {
	t.Helper()
	// Not t.TempDir: its name carries the test's, and a unix socket's path
	// must stay below 108 bytes. Not /tmp either: users' homes don't lie in a
	// folder that everyone may write to, and agents treat those as unsafe.
	cache := CacheDir(t)
	if err := os.MkdirAll(cache, 0o700); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(cache, "w-")
	if err != nil {
		t.Fatal(err)
	}
	w := &World{Dir: dir}
	if err := os.Mkdir(filepath.Join(dir, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.close(t) })
	return w
}

// close ends every process, checks that their groups are empty and shows the
// logs of a failed test.
func (w *World) close(t testing.TB) {
	w.mu.Lock()
	procs, nodes := slices.Clone(w.procs), slices.Clone(w.nodes)
	w.mu.Unlock()
	for _, p := range procs {
		p.End()
	}
	for _, p := range procs {
		if left := p.leftovers(); left != "" {
			t.Errorf("%s left processes behind: %s", p.name, left)
		}
	}
	for _, n := range nodes {
		if n.ns != nil {
			n.ns.close()
		}
		if t.Failed() {
			t.Logf("---- log of %s (home %s)\n%s", n.Name, n.Home, n.log.tail())
		}
	}
	if os.Getenv("WEFT_E2E_KEEP") == "1" {
		t.Logf("kept %s", w.Dir)
		return
	}
	if err := os.RemoveAll(w.Dir); err != nil {
		t.Errorf("remove the world's folder: %v", err)
	}
}

// Env is the environment every process of the world gets: nothing of the
// caller's but the search path, a home inside the world, and what makes output
// the same everywhere.
func (w *World) Env(home string, more ...string) []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + home,
		"TMPDIR=" + filepath.Join(w.Dir, "tmp"),
		"LANG=C.UTF-8",
		"TZ=UTC",
		"NO_COLOR=1",
		"GOTOOLCHAIN=local",
	}
	if dir := os.Getenv("GOCOVERDIR"); dir != "" {
		env = append(env, "GOCOVERDIR="+dir)
	}
	return append(env, more...)
}

func (w *World) add(p *Process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.procs = append(w.procs, p)
}
