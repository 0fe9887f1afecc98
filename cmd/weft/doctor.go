package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weftmesh/weft/node"
	"github.com/weftmesh/weft/node/api"
)

func doctorCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Say what is wrong with the running node and how to mend it",
		Long: `Look at everything that commonly goes wrong. A check that is ok and has a fix
is a warning. It exits 1 if a check failed.`,
		Args: cobra.NoArgs,
		RunE: c.run(func(ctx context.Context, _ []string) error {
			var found node.Checkup
			if err := c.get(ctx, "/v1/doctor", &found); err != nil {
				return err
			}
			if err := c.print(found, func(w io.Writer) { showChecks(w, found.Checks) }); err != nil {
				return err
			}
			var failed []string
			for _, f := range found.Checks {
				if !f.OK {
					failed = append(failed, f.Name)
				}
			}
			if len(failed) > 0 {
				return api.Errorf(api.Internal, "%d of %d checks failed: %s", len(failed), len(found.Checks), strings.Join(failed, ", ")).
					WithCode("unhealthy").Try("do what the failed checks say")
			}
			return nil
		}),
	}
}

func showChecks(w io.Writer, checks []node.Check) {
	for _, c := range checks {
		mark := "ok"
		switch {
		case !c.OK:
			mark = "FAIL"
		case c.Fix != "":
			mark = "warn"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", mark, c.Name, c.Detail)
		if c.Fix != "" {
			fmt.Fprintf(w, "\t\tfix: %s\n", c.Fix)
		}
	}
}
