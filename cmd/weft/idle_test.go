//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Budgets of an idle node (docs/performance.md). The times are the machine's
// as much as ours, so a busy CI gets a multiple of the goal for those.
const (
	maxIdleRSS   = 45 << 20
	goalReady    = 300 * time.Millisecond
	maxReady     = 10 * goalReady
	goalCPU      = 0.003 // of a core
	maxCPU       = 10 * goalCPU
	idleWatch    = 6 * time.Second
	stopAtLatest = 5 * time.Second
)

// TestIdleCost starts the real binary and reads what Linux counts for it.
func TestIdleCost(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the binary and watches it for seconds")
	}
	// Not parallel: the CPU of the neighbours would be measured too.
	bin := filepath.Join(t.TempDir(), "weft")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	dir := t.TempDir()
	// The first start makes key and store; the second is what people wait for.
	for _, round := range []string{"first start", "second start"} {
		up := exec.Command(bin, "--home", dir, "--json", "--quiet", "up")
		out, err := up.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := up.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		took := time.Since(began)
		if err != nil || !strings.HasPrefix(line, `{"event":"ready"`) {
			up.Process.Kill()
			t.Fatalf("%s: %q, %v", round, line, err)
		}
		t.Logf("%s: ready after %v", round, took.Round(time.Millisecond))
		if took > maxReady {
			t.Errorf("%s: ready after %v, the goal is %v", round, took, goalReady)
		}
		if round == "second start" {
			watchIdle(t, up.Process.Pid)
		}
		began = time.Now()
		up.Process.Signal(syscall.SIGTERM)
		if err := up.Wait(); err != nil {
			t.Errorf("%s: stop: %v", round, err)
		}
		if took := time.Since(began); took > stopAtLatest {
			t.Errorf("%s: stopped after %v", round, took)
		} else {
			t.Logf("%s: stopped after %v", round, took.Round(time.Millisecond))
		}
	}
}

// watchIdle reads memory and CPU of a process over a while.
func watchIdle(t *testing.T, pid int) {
	ctx, cancel := context.WithTimeout(t.Context(), idleWatch)
	defer cancel()
	before, began := cpuTime(t, pid), time.Now()
	<-ctx.Done()
	cpu := (cpuTime(t, pid) - before).Seconds() / time.Since(began).Seconds()
	rss := residentBytes(t, pid)
	t.Logf("idle: %.1f MB resident, %.2f %% of a core", float64(rss)/1e6, 100*cpu)
	if rss > maxIdleRSS {
		t.Errorf("idle node has %d bytes resident, the budget is %d", rss, maxIdleRSS)
	}
	if cpu > maxCPU {
		t.Errorf("idle node uses %.2f %% of a core, the goal is %.2f %%", 100*cpu, 100*goalCPU)
	}
}

func residentBytes(t *testing.T, pid int) int {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(raw))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// cpuTime reads utime and stime, which Linux counts in hundredths (proc(5)).
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(raw), ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 13 {
		t.Fatalf("/proc stat: %q", raw)
	}
	ticks := 0
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
