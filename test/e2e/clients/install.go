//go:build unix

package clients

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/weftmesh/weft/test/e2e/world"
)

// installPatience bounds npm ci, which takes 15 s on a good line.
const installPatience = 10 * time.Minute

// Set is an installed set of packages.
type Set struct {
	// Dir is the folder with node_modules.
	Dir string

	node string // the node binary
}

// Install gives the set of testdata/npm, installing it when it isn't there.
func Install(t testing.TB) *Set {
	t.Helper()
	return install(t, "npm")
}

// install gives the set of a folder of testdata.
func install(t testing.TB, name string) *Set {
	t.Helper()
	source := filepath.Join(world.Root(t), "test", "e2e", "testdata", name)
	node, err := exec.LookPath("node")
	if err != nil {
		world.Missing(t, "node: %v", err)
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		world.Missing(t, "npm: %v", err)
	}
	s := &Set{Dir: filepath.Join(world.CacheDir(t), hashOf(t, source, "package.json", "package-lock.json")), node: node}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	unlock := lock(t, s.Dir+".lock")
	defer unlock()
	done := filepath.Join(s.Dir, "installed")
	if _, err := os.Stat(done); err == nil {
		return s
	}
	for _, f := range []string{"package.json", "package-lock.json"} {
		copyFile(t, filepath.Join(source, f), filepath.Join(s.Dir, f))
	}
	s.ci(t, npm)
	if err := os.WriteFile(done, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return s
}

// ci runs npm ci. Everything it writes is below s.Dir: cache and logs by flag,
// anything else by a home of its own. The caller's npm configuration, which may
// name a registry, is read and not changed.
func (s *Set) ci(t testing.TB, npm string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), installPatience)
	defer cancel()
	own := filepath.Join(s.Dir, "npm")
	cmd := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier",
		"--loglevel=error", "--cache", filepath.Join(own, "cache"), "--logs-dir", filepath.Join(own, "logs"))
	cmd.Dir = s.Dir
	cmd.Env = append(os.Environ(), "HOME="+own)
	if os.Getenv("NPM_CONFIG_USERCONFIG") == "" {
		if home, err := os.UserHomeDir(); err == nil {
			cmd.Env = append(cmd.Env, "NPM_CONFIG_USERCONFIG="+filepath.Join(home, ".npmrc"))
		}
	}
	began := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm ci in %s: %v\n%s\nTry: rm -r that folder and run the test again.", s.Dir, err, out)
	}
	t.Logf("npm ci took %v", time.Since(began).Round(time.Second))
	if err := os.RemoveAll(own); err != nil { // 300 MB of tarballs, not needed again
		t.Fatal(err)
	}
}

// hashOf names a set by the content of its files.
func hashOf(t testing.TB, dir string, names ...string) string {
	t.Helper()
	h := sha256.New()
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(h, "%s %d\n%s", name, len(b), b)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// lock keeps two test processes from installing at once.
func lock(t testing.TB, path string) (unlock func()) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return func() { f.Close() }
}

// copyFile replaces to with the content of from, atomically.
func copyFile(t testing.TB, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(to), ".new-")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tmp.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := tmp.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp.Name(), to); err != nil {
		t.Fatal(err)
	}
}

// path is a file of the set.
func (s *Set) path(elem ...string) string {
	return filepath.Join(append([]string{s.Dir}, elem...)...)
}
