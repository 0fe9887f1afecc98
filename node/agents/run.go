package agents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// stopGrace is how long an agent may take to end by itself after Ctrl-C.
const stopGrace = 5 * time.Second

// Run starts an agent on the given streams and waits for it. When ctx ends,
// the agent and what it started are stopped. The exit code is the agent's.
func Run(ctx context.Context, l Launch, in io.Reader, out, errw io.Writer) (exit int, err error) {
	for name, raw := range l.Files {
		if err := os.WriteFile(name, raw, 0o600); err != nil {
			return 0, fmt.Errorf("write the agent's settings: %w", err)
		}
	}
	cmd := exec.CommandContext(ctx, l.Argv[0], l.Argv[1:]...)
	cmd.Env = append(os.Environ(), l.Env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, errw
	group(cmd)
	cmd.Cancel = func() error { return stopGroup(cmd, false) }
	cmd.WaitDelay = stopGrace
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start %s: %w", l.Argv[0], err)
	}
	err = cmd.Wait()
	stopGroup(cmd, true) // what the agent left running
	var exited *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case errors.As(err, &exited):
		return exited.ExitCode(), nil
	}
	return 0, err
}
