package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftmesh/weft/node"
	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/node/host"
)

// stopWait is how long a node may take to stop before the process ends anyway;
// what was acknowledged is on disk by then.
const stopWait = 5 * time.Second

func upCommand(c *cli) *cobra.Command {
	cfg := node.Config{}
	level := slog.LevelInfo
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run the node in the foreground until Ctrl-C",
		Long: `Run the node in the foreground until SIGINT or SIGTERM.

The first start makes the home directory and the identity key. With --json the
first line of output is {"event":"ready",...}. The log goes to stderr.`,
		Example: `  weft up
  weft up --bootstrap /dns4/relay.example.org/udp/4001/quic-v1/p2p/12D3Koo...
  weft up --relay --profile relay --listen /ip4/0.0.0.0/udp/4001/quic-v1`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&cfg.Listen, "listen", nil, "multiaddr to listen on, may be repeated (default QUIC and TCP on every interface, free ports)")
	flags.StringArrayVar(&cfg.Bootstrap, "bootstrap", nil, "multiaddr with /p2p/ID of a peer or relay to stay connected to, may be repeated")
	flags.BoolVar(&cfg.Relay, "relay", false, "serve as a relay for others")
	flags.BoolVar(&cfg.RelayOnly, "relay-only", false, "don't let peers learn this machine's address: connect through the relays of --bootstrap only (weft relay-only off changes it)")
	flags.BoolVar(&cfg.NoMDNS, "no-mdns", false, "don't announce or look for peers on the local network")
	flags.StringVar(&cfg.API, "api", "", "loopback address of the API (default 127.0.0.1 and a free port)")
	flags.StringVar(&cfg.Profile, "profile", host.ProfileLaptop, "limits for a laptop, a server or a relay")
	flags.TextVar(&level, "log-level", level, "DEBUG, INFO, WARN or ERROR")
	cmd.RunE = c.run(func(ctx context.Context, _ []string) error {
		profiles := []string{host.ProfileLaptop, host.ProfileServer, host.ProfileRelay}
		if !slices.Contains(profiles, cfg.Profile) {
			return api.Errorf(api.Usage, "profile %q is unknown", cfg.Profile).Try("use %s", strings.Join(profiles, ", "))
		}
		dir, err := c.dir()
		if err != nil {
			return err
		}
		if c.quiet {
			level = max(level, slog.LevelWarn)
		}
		cfg.Home = dir
		cfg.Log = slog.New(slog.NewTextHandler(c.err, &slog.HandlerOptions{Level: level}))
		return c.up(ctx, cfg)
	})
	return cmd
}

// up runs a node until the context ends. The context comes from the signals.
func (c *cli) up(ctx context.Context, cfg node.Config) error {
	node.Tune()
	n := node.New(cfg)
	if err := n.Start(ctx); err != nil {
		return err
	}
	if err := c.ready(n.Ready()); err != nil {
		n.Close()
		return err
	}
	node.Settle()
	<-ctx.Done()
	c.stopSignals()
	cfg.Log.Info("stopping")
	done := make(chan error, 1)
	go func() { done <- n.Close() }() // ends with the process at the latest
	select {
	case err := <-done:
		return err
	case <-time.After(stopWait):
		return api.Errorf(api.Internal, "the node did not stop within %v and was ended; nothing acknowledged is lost", stopWait).
			Try("weft up again; if it happens again, report it with what --log-level DEBUG says")
	}
}

func (c *cli) ready(r node.Ready) error {
	return c.print(r, func(w io.Writer) {
		fmt.Fprintf(w, "weft %s is up. Stop it with Ctrl-C.\n\n", r.Version)
		fmt.Fprintf(w, "peer id\t%s\n", r.PeerID)
		fmt.Fprintf(w, "agent id\t%s\n", r.AgentID)
		fmt.Fprintf(w, "API\t%s\n", r.API)
		for i, a := range r.Addrs {
			fmt.Fprintf(w, "%s\t%s\n", []string{"listens on", ""}[min(i, 1)], a)
		}
	})
}
