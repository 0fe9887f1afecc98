package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/workspace/command"
)

func profilesCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "profiles",
		Short: "List the command profiles that share --run can grant",
		Args:  cobra.NoArgs,
		RunE: c.run(func(context.Context, []string) error {
			return c.print(map[string]any{"profiles": command.Profiles()}, func(w io.Writer) {
				fmt.Fprintf(w, "PROFILE\tRUNS CODE OF THE FOLDER\tWHAT IT ALLOWS\n")
				for _, p := range command.Profiles() {
					fmt.Fprintf(w, "%s\t%s\t%s\n", p.Name, yesNo(p.RunsRepoCode), p.Summary)
				}
			})
		}),
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "show NAME",
		Short: "Show what a profile allows and neutralises",
		Args:  cobra.ExactArgs(1),
		RunE: c.run(func(_ context.Context, args []string) error {
			p, ok := command.Lookup(args[0])
			if !ok {
				return api.Errorf(api.NotFound, "no profile %q", args[0]).Try("weft profiles lists them")
			}
			return c.print(p, func(w io.Writer) {
				fmt.Fprintf(w, "%s\t%s\n", p.Name, p.Summary)
				fmt.Fprintf(w, "usage\t%s\n", p.Usage)
				fmt.Fprintf(w, "program\t%s\n", p.Tool)
				fmt.Fprintf(w, "runs code of the folder\t%s\n", yesNo(p.RunsRepoCode))
				fmt.Fprintf(w, "needs a network\t%s\n", yesNo(p.NeedsNet))
				for i, n := range p.Neutralised {
					fmt.Fprintf(w, "%s\t%s\n", []string{"switched off or forced", ""}[min(i, 1)], n)
				}
			})
		}),
	})
	return cmd
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
