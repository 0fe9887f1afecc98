package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weftmesh/weft/node"
)

func statusCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show how the running node is, and who is connected how",
		Args:  cobra.NoArgs,
		RunE: c.run(func(ctx context.Context, _ []string) error {
			var s node.Status
			if err := c.get(ctx, "/v1/status", &s); err != nil {
				return err
			}
			return c.print(s, func(w io.Writer) { showStatus(w, s) })
		}),
	}
}

func showStatus(w io.Writer, s node.Status) {
	fmt.Fprintf(w, "peer id\t%s\n", s.PeerID)
	fmt.Fprintf(w, "version\t%s, pid %d, up %s\n", s.Version, s.PID, secondsText(s.Uptime))
	fmt.Fprintf(w, "reachable\t%s\n", s.Reachability)
	fmt.Fprintf(w, "relays\t%s\n", or(strings.Join(s.Relays, ", "), "none"))
	fmt.Fprintf(w, "sessions\t%d open\n", s.Sessions)
	fmt.Fprintf(w, "store\t%s\n", node.SizeText(s.Store.Bytes))
	for i, a := range s.Addrs {
		fmt.Fprintf(w, "%s\t%s\n", []string{"addresses", ""}[min(i, 1)], a)
	}
	if len(s.Peers) == 0 {
		fmt.Fprintf(w, "\nno peers yet; add one with: weft peer add MULTIADDR\n")
		return
	}
	fmt.Fprintf(w, "\nPEER\tPATH\tRTT\tIN\tOUT\n")
	for _, p := range s.Peers {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", peerText(p.Name, p.PeerID), or(p.Path, "not connected"), millisText(p.RTT), node.SizeText(int64(p.BytesIn)), node.SizeText(int64(p.BytesOut)))
	}
}

// peerText shows a peer in a table: its name, and enough of its id to type.
// All ids begin alike, so the end of the beginning is what tells them apart.
func peerText(name, peerID string) string {
	const enough = 16
	short := peerID[:min(enough, len(peerID))]
	if name == "" {
		return short
	}
	return name + " (" + short + ")"
}
