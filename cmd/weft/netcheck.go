package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/weftmesh/weft/node"
)

func netcheckCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "netcheck",
		Short: "Show how others can reach this node",
		Args:  cobra.NoArgs,
		RunE: c.run(func(ctx context.Context, _ []string) error {
			var n node.Netcheck
			if err := c.get(ctx, "/v1/netcheck", &n); err != nil {
				return err
			}
			return c.print(n, func(w io.Writer) {
				fmt.Fprintf(w, "reachability\t%s\n", n.Reachability)
				fmt.Fprintf(w, "UDP (QUIC)\t%s\n", yes(n.UDP))
				fmt.Fprintf(w, "TCP\t%s\n", yes(n.TCP))
				for _, path := range slices.Sorted(maps.Keys(n.Connected)) {
					fmt.Fprintf(w, "connected\t%d by %s\n", n.Connected[path], path)
				}
				fmt.Fprintf(w, "\nADDRESS\tSCOPE\tTRANSPORT\n")
				for _, a := range n.Addrs {
					fmt.Fprintf(w, "%s\t%s\t%s\n", a.Addr, a.Scope, a.Transport)
				}
				if len(n.Relays) == 0 {
					fmt.Fprintf(w, "\nno relay is configured (weft up --bootstrap MULTIADDR)\n")
					return
				}
				fmt.Fprintf(w, "\nRELAY\tRESERVED\tRTT\tPROBLEM\n")
				for _, r := range n.Relays {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.PeerID, yes(r.Reserved), millisText(r.RTT), or(or(r.Error, r.Problem), "-"))
				}
			})
		}),
	}
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
