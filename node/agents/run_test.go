//go:build unix

package agents

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestRunGivesExitCodeAndEnvironment(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	code, err := Run(t.Context(), Launch{Argv: []string{"sh", "-c", "echo $WEFT_MCP_COMMAND; exit 7"}, Env: []string{"WEFT_MCP_COMMAND=x y"}}, strings.NewReader(""), &out, &out)
	if err != nil || code != 7 || out.String() != "x y\n" {
		t.Fatalf("got %d, %v, %q", code, err, out.String())
	}
}

func TestRunLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	// The agent ends and leaves a child; then one that must be stopped.
	if _, err := Run(t.Context(), Launch{Argv: []string{"sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!"}}, strings.NewReader(""), &out, &out); err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	gone(t, pid)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Run(ctx, Launch{Argv: []string{"sh", "-c", "trap '' TERM; sleep 60"}}, strings.NewReader(""), &out, &out); err == nil {
		t.Fatal("a stopped agent gave no error")
	}
}

// gone waits until a process has ended.
func gone(t *testing.T, pid int) {
	t.Helper()
	deadline := time.NewTimer(5 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for syscall.Kill(pid, 0) == nil {
		select {
		case <-deadline.C:
			t.Fatalf("process %d still runs", pid)
		case <-tick.C:
		}
	}
}
