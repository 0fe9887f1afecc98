package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/weftmesh/weft/node"
)

func relayOnlyCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "relay-only on|off",
		Short: "Hide this machine's address from peers, or stop hiding it",
		Long: `While on, peers reach this machine through its relays only and are not told its
address; new direct connections are neither made nor taken. Turned off, open
sessions move to a direct path as soon as one is found.`,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"on", "off"},
		RunE: c.run(func(ctx context.Context, args []string) error {
			out := node.RelayOnly{On: args[0] == "on"}
			if err := c.do(ctx, "POST", "/v1/relay-only", out, &out); err != nil {
				return err
			}
			return c.print(out, func(w io.Writer) { fmt.Fprintf(w, "relay-only is %s\n", args[0]) })
		}),
	}
}
