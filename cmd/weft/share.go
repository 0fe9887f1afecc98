package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/node/sessions"
)

func shareCommand(c *cli) *cobra.Command {
	in := sessions.ShareRequest{}
	var lasts time.Duration
	var watch bool
	cmd := &cobra.Command{
		Use:   "share [NAME=]DIR[:ro]... --with PEER",
		Short: "Let a peer's agent work in folders of yours",
		Long: `Offer a workspace session: the peer's agent may work in these folders by tool
calls that are checked and logged one by one. Read-only unless --write is given.
Secret-shaped files (.env*, keys, credentials ...) are never shown. Nothing runs
unless --run grants it, and then in a sandbox without network.`,
		Example: `  weft share . --with bob
  weft share app=./app docs=./docs:ro --with bob --write --run go-test --for 2h --watch
  weft share . --with bob --write --run "make check"`,
		Args: cobra.MinimumNArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&in.With, "with", "", "the peer whose agent works: an id, a name or the beginning of an id")
	f.BoolVar(&in.Write, "write", false, "let it create and change files")
	f.BoolVar(&in.Delete, "delete", false, "let it delete and move files")
	f.StringArrayVar(&in.Run, "run", nil, `grant a command: a profile (weft profiles) or an exact command in quotes; may be repeated`)
	f.BoolVar(&in.AllowNet, "allow-net", false, "let granted commands reach the network")
	f.BoolVar(&in.Unsandboxed, "unsandboxed", false, "let commands run where this machine has no sandbox; the receipt says so")
	f.StringArrayVar(&in.Include, "include", nil, "only files that match, such as 'src/**'; may be repeated")
	f.StringArrayVar(&in.Exclude, "exclude", nil, "no files that match; may be repeated")
	f.DurationVar(&lasts, "for", 0, "how long the session lasts (default 8h)")
	f.Int64Var(&in.Calls, "calls", 0, "how many calls in all (default 20000)")
	f.Int64Var(&in.ReadBytes, "read-bytes", 0, "how many bytes may be read in all (default 256 MiB)")
	f.Int64Var(&in.WriteBytes, "write-bytes", 0, "how many bytes may be written in all (default 64 MiB)")
	f.Int64Var(&in.Rate, "rate", 0, "calls a minute over all tools (default by kind: 600 reads, 120 writes, 60 commands)")
	f.BoolVar(&in.PublishPaths, "publish-paths", false, "let paths be shown to others than the two sides")
	f.StringVar(&in.Task, "task", "", "what the work is, in your words, for the person on the other side")
	f.BoolVar(&watch, "watch", false, "show each call as it happens; Ctrl-C stops watching, not the session")
	cmd.RunE = c.run(func(ctx context.Context, args []string) error {
		if in.With == "" {
			return api.Errorf(api.Usage, "--with PEER is missing").Try("weft peer list")
		}
		if lasts < time.Second && (lasts != 0 || f.Changed("for")) {
			return api.Errorf(api.Usage, "--for %v: a session lasts a second or more", lasts).Try("give a duration such as 2h")
		}
		in.Seconds = int64(lasts / time.Second)
		for _, arg := range args {
			root, err := parseRoot(arg)
			if err != nil {
				return err
			}
			in.Roots = append(in.Roots, root)
		}
		var out sessions.Shared
		if err := c.do(ctx, "POST", "/v1/share", in, &out); err != nil {
			return err
		}
		if err := c.print(out, func(w io.Writer) { showShared(w, out) }); err != nil || !watch {
			return err
		}
		return c.watch(ctx, out.SessionID)
	})
	return cmd
}

// parseRoot reads [NAME=]DIR[:ro]. The daemon runs elsewhere, so the folder
// becomes absolute here.
func parseRoot(arg string) (sessions.ShareRoot, error) {
	var r sessions.ShareRoot
	dir := arg
	if name, rest, ok := strings.Cut(arg, "="); ok && !strings.ContainsRune(name, filepath.Separator) {
		r.Name, dir = name, rest
	}
	if rest, ok := strings.CutSuffix(dir, ":ro"); ok {
		dir, r.ReadOnly = rest, true
	}
	if dir == "" {
		return r, api.Errorf(api.Usage, "%q names no folder", arg).Try("weft share DIR --with PEER")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return r, fmt.Errorf("find %s: %w", dir, err)
	}
	r.Dir = abs
	return r, nil
}

func showShared(w io.Writer, s sessions.Shared) {
	fmt.Fprintf(w, "session\t%s\n", s.SessionID)
	fmt.Fprintf(w, "with\t%s\n", s.Provider)
	for i, r := range s.Roots {
		fmt.Fprintf(w, "%s\t%s (%s)\n", []string{"folders", ""}[min(i, 1)], r.Name, r.Rights)
	}
	fmt.Fprintf(w, "commands\t%s\n", or(strings.Join(s.Commands, ", "), "none"))
	if len(s.Commands) > 0 {
		fmt.Fprintf(w, "sandbox\t%s\n", s.Sandbox)
	}
	fmt.Fprintf(w, "until\t%s\n", s.ExpiresAt)
	fmt.Fprintf(w, "grant\t%s\n\n", s.GrantHash)
	fmt.Fprintf(w, "Watch it: weft watch %s   Stop it: weft stop %s\n", s.SessionID[:8], s.SessionID[:8])
}
