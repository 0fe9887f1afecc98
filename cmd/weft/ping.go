package main

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/weftmesh/weft/node"
)

func pingCommand(c *cli) *cobra.Command {
	in := node.Ping{}
	interval := time.Second
	cmd := &cobra.Command{
		Use:   "ping PEER",
		Short: "Measure the way to a peer, and watch it change",
		Long: `Ping a peer: a line a reply with the path and the round trip, and a line for
each change of path. With --json, one document a line, rtt in milliseconds.

It exits 3 if no reply came.`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().IntVarP(&in.Count, "count", "c", 4, "how many pings; 0 goes on until Ctrl-C")
	cmd.Flags().DurationVarP(&interval, "interval", "i", interval, "time between pings")
	cmd.RunE = c.run(func(ctx context.Context, args []string) error {
		in.Peer, in.Interval = args[0], interval.Milliseconds()
		client, err := c.client()
		if err != nil {
			return err
		}
		defer client.Close()
		replies := 0
		err = client.Events(ctx, "POST", "/v1/ping", in, func(raw []byte) error {
			var e node.PingEvent
			if err := json.Unmarshal(raw, &e); err != nil {
				return fmt.Errorf("read event: %w", err)
			}
			if e.Event == "reply" {
				replies++
			}
			if c.json {
				_, err := fmt.Fprintf(c.out, "%s\n", raw)
				return err
			}
			showPing(c, args[0], e)
			return nil
		})
		if err != nil && replies > 0 && ctx.Err() == context.Canceled {
			return nil // Ctrl-C is how an endless ping ends
		}
		return err
	})
	return cmd
}

func showPing(c *cli, peer string, e node.PingEvent) {
	switch e.Event {
	case "reply":
		fmt.Fprintf(c.out, "%3d  %-12s %s\n", e.Seq, e.Path, millisText(e.RTT))
	case "lost":
		fmt.Fprintf(c.out, "%3d  no reply from %s: %s\n", e.Seq, peer, e.Error)
	case "path":
		fmt.Fprintf(c.out, "     %s -> %s\n", e.From, e.Path)
	}
}
