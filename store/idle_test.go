//go:build linux

package store

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Budgets of a store that nobody uses: what a laptop pays for having it.
const (
	idleMemory = 6 << 20               // anonymous, above the process without it
	idleFor    = 3 * time.Second       // observed
	idleCPU    = 15 * time.Millisecond // in idleFor: half a percent of a core
)

// anonymous returns the process's resident anonymous memory in bytes.
func anonymous() (kb int64) {
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return -1
	}
	_, after, _ := strings.Cut(string(raw), "RssAnon:")
	if _, err := fmt.Sscan(after, &kb); err != nil {
		return -1
	}
	return kb << 10
}

func cpu() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return -1
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// idle is the child: it opens a store, writes a little, and waits.
func idle(dir string) int {
	before := anonymous()
	db, err := Open(Options{Dir: dir})
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	for range 20 {
		if _, err := writeStep(db, 2); err != nil {
			fmt.Println("error", err)
			return 1
		}
	}
	timer := time.NewTimer(time.Second) // the work of opening is over
	<-timer.C
	used := cpu()
	timer.Reset(idleFor)
	<-timer.C
	fmt.Println("ready", anonymous()-before, int64(cpu()-used), before)
	if err := db.Close(); err != nil {
		return 1
	}
	return 0
}

func TestIdleBudget(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("watches an idle process for four seconds")
	}
	cmd, lines, _ := start(t, "idle", t.TempDir())
	var mem, used, before int64
	if _, err := fmt.Sscanf(lines.Text(), "ready %d %d %d", &mem, &used, &before); err != nil {
		t.Fatalf("child said %q", lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	t.Logf("anonymous %d kB above %d kB, %v of CPU in %v", mem>>10, before>>10, time.Duration(used), idleFor)
	if raceEnabled {
		t.Skip("the race detector has memory of its own")
	}
	if mem > idleMemory || mem <= 0 {
		t.Errorf("%d bytes of anonymous memory, the budget is %d", mem, idleMemory)
	}
	if time.Duration(used) > idleCPU {
		t.Errorf("%v of CPU in %v, the budget is %v", time.Duration(used), idleFor, idleCPU)
	}
}
