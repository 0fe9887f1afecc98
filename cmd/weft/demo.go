package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/weftmesh/weft/node/demo"
)

func demoCommand(c *cli) *cobra.Command {
	var keep string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch a whole session on this machine",
		Long: `Start a small real mesh on loopback: a relay, a requester with a folder and a
provider with an agent, as processes of their own. The agent reads, edits, runs a
test and is refused what it may not do; the session moves from the relay to a
direct connection; both sign the receipt, which is verified from the file alone.
It exits 0 only if everything held.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&keep, "keep", "", "keep homes, folder, receipts and logs in this new directory")
	cmd.RunE = c.run(func(ctx context.Context, _ []string) error {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find weft itself: %w", err)
		}
		if keep != "" {
			if keep, err = filepath.Abs(keep); err != nil {
				return err
			}
		}
		var mu sync.Mutex
		step := 0
		return demo.Run(ctx, demo.Config{Weft: self, Dir: keep, Show: func(e demo.Event) {
			mu.Lock()
			defer mu.Unlock()
			if c.json {
				c.printJSON(e)
				return
			}
			switch e.Event {
			case "step":
				step++
				fmt.Fprintf(c.out, "\n%d. %s\n", step, e.Text)
			case "call":
				mark := map[string]string{"ok": "ok", "denied": "REFUSED"}[e.Verdict]
				fmt.Fprintf(c.out, "     %-8s %-14s %s\n", or(mark, e.Verdict), e.Tool, strings.TrimSpace(callTail(e)))
			case "done":
				fmt.Fprintf(c.out, "\n%s\n", e.Text)
			default:
				fmt.Fprintf(c.out, "   - %s\n", e.Text)
			}
		}})
	})
	return cmd
}

func callTail(e demo.Event) string {
	if e.Code != "" {
		return e.Path + "  [" + e.Code + "]"
	}
	return e.Path + "  " + e.Text
}
