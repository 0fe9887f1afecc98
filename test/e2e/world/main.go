//go:build unix

package world

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// shared is what the worlds of one test process have in common: the folder of
// built binaries. Main makes and removes it.
var shared struct {
	dir string

	mu    sync.Mutex // guards below; held while building
	built map[string]string
	root  string
}

// Main runs the tests and returns the exit code for os.Exit: theirs, or 1 when
// a process or a goroutine outlived them.
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "weft-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	shared.dir, shared.built = dir, map[string]string{}
	if err := adoptOrphans(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: adopt orphans:", err)
		return 1
	}
	code := m.Run()
	if left := settle(dying, remaining); left != "" {
		fmt.Fprintln(os.Stderr, "e2e: processes outlived their test:", left)
		code = 1
	}
	for _, p := range descendants() {
		syscall.Kill(p.pid, syscall.SIGKILL)
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "e2e:", err)
			code = 1
		}
	}
	return code
}

// remaining names the processes below this one.
func remaining() string {
	var names []string
	for _, p := range descendants() {
		names = append(names, fmt.Sprintf("pid %d: %s", p.pid, p.command))
	}
	return strings.Join(names, "; ")
}

// Running lists the command lines, among all processes that tests started,
// which hold the text. It sees into sandboxes, as their processes are
// descendants like any other. Empty on systems other than Linux.
func Running(text string) []string {
	var lines []string
	for _, p := range descendants() {
		if strings.Contains(p.command, text) {
			lines = append(lines, p.command)
		}
	}
	return lines
}

// Root is the folder of the module's go.mod.
func Root(t testing.TB) string {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.root == "" {
		out, err := exec.Command("go", "env", "GOMOD").Output()
		mod := strings.TrimSpace(string(out))
		if err != nil || filepath.Base(mod) != "go.mod" {
			t.Fatalf("find the module: %q, %v", mod, err)
		}
		shared.root = filepath.Dir(mod)
	}
	return shared.root
}

// CacheDir is where the kit keeps what outlives a run, and where worlds live.
func CacheDir(t testing.TB) string {
	t.Helper()
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "weft-e2e")
}

// Build builds a command of the module once and returns the binary's path.
// Path is relative to the module, such as "cmd/weft".
func Build(t testing.TB, path string) string {
	t.Helper()
	root := Root(t)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if bin, ok := shared.built[path]; ok {
		return bin
	}
	if bin := os.Getenv("WEFT_E2E_BIN"); bin != "" && path == "cmd/weft" {
		return bin
	}
	if shared.built == nil {
		t.Fatal("world.Main is not this package's TestMain")
	}
	bin := filepath.Join(shared.dir, filepath.Base(path))
	args := []string{"build", "-o", bin}
	if os.Getenv("WEFT_E2E_RACE") == "1" {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "./"+path)...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build ./%s: %v\n%s", path, err, out)
	}
	shared.built[path] = bin
	return bin
}

// Missing says that the machine lacks something a test needs. On a person's
// machine the test is skipped with the reason; in CI, whose script installs
// everything, it is a failure.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("missing in CI: "+format, args...)
	}
	t.Skipf("missing: "+format, args...)
}
