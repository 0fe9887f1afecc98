package main

import (
	"context"
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/weftmesh/weft/node"
)

// versionOutput is the output of `weft version`.
type versionOutput struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

func versionCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show what this binary was built from",
		Args:  cobra.NoArgs,
		RunE: c.run(func(context.Context, []string) error {
			b := node.BuildInfo()
			out := versionOutput{Version: b.Version, Revision: b.Revision, Go: b.Go, OS: runtime.GOOS, Arch: runtime.GOARCH}
			return c.print(out, func(w io.Writer) {
				fmt.Fprintf(w, "weft %s (%s, %s/%s)\n", out.Version, out.Go, out.OS, out.Arch)
				if out.Revision != "" {
					fmt.Fprintf(w, "commit %s\n", out.Revision)
				}
			})
		}),
	}
}
