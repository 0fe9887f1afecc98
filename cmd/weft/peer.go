package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weftmesh/weft/node"
)

func peerCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "peer",
		Short: "Add, list, name and forget peers",
		Long: `Add, list, name and forget peers. Being listed gives a peer no right: it has
a name and addresses, is kept connected, and is no stranger.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(peerAddCommand(c), peerListCommand(c), peerRemoveCommand(c), peerNameCommand(c))
	return cmd
}

func peerAddCommand(c *cli) *cobra.Command {
	in := node.PeerAdd{}
	cmd := &cobra.Command{
		Use:   "add MULTIADDR|ID",
		Short: "Add a peer, or an address to one",
		Example: `  weft peer add /ip4/192.0.2.7/udp/4001/quic-v1/p2p/12D3Koo... --name bob
  weft peer add did:key:z6Mk...`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&in.Name, "name", "", "a name to call it by")
	cmd.RunE = c.run(func(ctx context.Context, args []string) error {
		in.Target = args[0]
		var p node.Peer
		if err := c.do(ctx, "POST", "/v1/peers", in, &p); err != nil {
			return err
		}
		return c.print(p, func(w io.Writer) {
			fmt.Fprintf(w, "added %s\n", peerLine(p))
		})
	})
	return cmd
}

func peerListCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the peers you added",
		Args:    cobra.NoArgs,
		RunE: c.run(func(ctx context.Context, _ []string) error {
			var list node.Peers
			if err := c.get(ctx, "/v1/peers", &list); err != nil {
				return err
			}
			return c.print(list, func(w io.Writer) {
				if len(list.Peers) == 0 {
					fmt.Fprintf(w, "no peers yet; add one with: weft peer add MULTIADDR\n")
					return
				}
				fmt.Fprintf(w, "NAME\tPEER ID\tPATH\tADDRESSES\n")
				for _, p := range list.Peers {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", or(p.Name, "-"), p.PeerID, or(p.Path, "not connected"), or(strings.Join(p.Addrs, ", "), "-"))
				}
			})
		}),
	}
}

func peerRemoveCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "rm PEER",
		Short: "Forget a peer",
		Args:  cobra.ExactArgs(1),
		RunE: c.run(func(ctx context.Context, args []string) error {
			var p node.Peer
			if err := c.do(ctx, "DELETE", "/v1/peers/"+url.PathEscape(args[0]), nil, &p); err != nil {
				return err
			}
			return c.print(p, func(w io.Writer) { fmt.Fprintf(w, "forgot %s\n", peerLine(p)) })
		}),
	}
}

func peerNameCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "name PEER NAME",
		Short: `Name a peer; "" takes the name away`,
		Args:  cobra.ExactArgs(2),
		RunE: c.run(func(ctx context.Context, args []string) error {
			var p node.Peer
			if err := c.do(ctx, "PATCH", "/v1/peers/"+url.PathEscape(args[0]), node.PeerName{Name: args[1]}, &p); err != nil {
				return err
			}
			return c.print(p, func(w io.Writer) { fmt.Fprintf(w, "named %s\n", peerLine(p)) })
		}),
	}
}

// peerLine is a peer in a sentence, with its whole id.
func peerLine(p node.Peer) string {
	if p.Name == "" {
		return p.PeerID
	}
	return p.Name + " (" + p.PeerID + ")"
}
