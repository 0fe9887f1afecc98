package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/node/sessions"
)

func sessionPath(id string) string { return "/v1/sessions/" + url.PathEscape(id) }

func offersCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "offers",
		Short: "List sessions offered to you",
		Args:  cobra.NoArgs,
		RunE: c.run(func(ctx context.Context, _ []string) error {
			var out sessions.Offers
			if err := c.get(ctx, "/v1/offers", &out); err != nil {
				return err
			}
			return c.print(out, func(w io.Writer) {
				if len(out.Offers) == 0 {
					fmt.Fprintln(w, "no offers; the other side makes one with: weft share DIR --with "+"your id (weft id)")
					return
				}
				for _, o := range out.Offers {
					from := o.From
					if o.FromName != "" {
						from = o.FromName + " (" + o.From + ")"
					} else if !o.Known {
						from += ", a stranger"
					}
					fmt.Fprintf(w, "session\t%s\n", o.SessionID)
					fmt.Fprintf(w, "from\t%s\n", from)
					for i, r := range o.Roots {
						fmt.Fprintf(w, "%s\t%s (%s)\n", []string{"folders", ""}[min(i, 1)], r.Name, r.Rights)
					}
					fmt.Fprintf(w, "commands\t%s\n", or(strings.Join(o.Commands, ", "), "none"))
					if o.Task != "" {
						fmt.Fprintf(w, "task\t%s\n", strings.ReplaceAll(o.Task, "\n", " "))
					}
					fmt.Fprintf(w, "until\t%s\n", o.ExpiresAt)
					fmt.Fprintf(w, "\tweft accept %s   or   weft decline %s\n\n", o.SessionID[:8], o.SessionID[:8])
				}
			})
		}),
	}
}

func acceptCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "accept ID",
		Short: "Accept an offered session",
		Args:  cobra.ExactArgs(1),
		RunE: c.run(func(ctx context.Context, args []string) error {
			var s sessions.Session
			if err := c.do(ctx, "POST", "/v1/offers/"+url.PathEscape(args[0])+"/accept", nil, &s); err != nil {
				return err
			}
			return c.print(s, func(w io.Writer) {
				showSession(w, s)
				fmt.Fprintf(w, "\nLet an agent work: weft work %s -- claude   (or: weft mcp %s)\n", s.SessionID[:8], s.SessionID[:8])
			})
		}),
	}
}

func declineCommand(c *cli) *cobra.Command {
	var in sessions.StopRequest
	cmd := &cobra.Command{
		Use:   "decline ID",
		Short: "Decline an offered session",
		Args:  cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&in.Reason, "reason", "", "a word for the other side")
	cmd.RunE = c.run(func(ctx context.Context, args []string) error {
		var out sessions.Stopped
		if err := c.do(ctx, "POST", "/v1/offers/"+url.PathEscape(args[0])+"/decline", in, &out); err != nil {
			return err
		}
		return c.print(out, func(w io.Writer) { fmt.Fprintf(w, "declined %s\n", out.SessionID) })
	})
	return cmd
}

func callCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "call ID TOOL [JSON]",
		Short: "Make one tool call, for scripts",
		Long:  "Make one tool call in a session that you work in, and print its result as JSON. Exits 4 if the requester refused it.",
		Example: `  weft call k3j2h1g5 read_file '{"path":"app/main.go"}'
  weft call k3j2h1g5 workspace_info`,
		Args: cobra.RangeArgs(2, 3),
		RunE: c.run(func(ctx context.Context, args []string) error {
			raw := "{}"
			if len(args) == 3 {
				raw = args[2]
			}
			if !jsontext.Value(raw).IsValid() {
				return api.Errorf(api.Invalid, "the arguments are not JSON").Try(`give an object such as '{"path":"app/main.go"}'`)
			}
			client, err := c.client()
			if err != nil {
				return err
			}
			defer client.Close()
			var out sessions.CallResult
			if err := client.Post(ctx, sessionPath(args[0])+"/call", sessions.CallRequest{Tool: args[1], Args: jsontext.Value(raw)}, &out); err != nil {
				return err
			}
			// For scripts: the result is JSON whatever the flags, a refused one too.
			if err := c.printJSON(out); err != nil {
				return err
			}
			switch out.Verdict {
			case "denied":
				return api.Errorf(api.Denied, "%s", firstLine(out.Text)).WithCode(out.Code).Try("weft call %s workspace_info lists what is granted", args[0])
			case "ok":
				return nil
			}
			return api.Errorf(api.Internal, "%s", firstLine(out.Text)).WithCode(out.Code).Try("read the reason; weft session log %s has the call", args[0])
		}),
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
