package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/node/sessions"
	"github.com/weftmesh/weft/workspace/requester"
)

func sessionsCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "sessions",
		Short: "List workspace sessions",
		Args:  cobra.NoArgs,
		RunE: c.run(func(ctx context.Context, _ []string) error {
			var out sessions.Sessions
			if err := c.get(ctx, "/v1/sessions", &out); err != nil {
				return err
			}
			return c.print(out, func(w io.Writer) {
				if len(out.Sessions) == 0 {
					fmt.Fprintln(w, "no sessions yet; offer one with: weft share DIR --with PEER")
					return
				}
				fmt.Fprintf(w, "SESSION\tROLE\tSTATE\tPEER\tPATH\tCALLS\tREFUSED\tUNTIL\n")
				for _, s := range out.Sessions {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\n", s.SessionID[:8], s.Role, s.State, or(s.PeerName, s.Peer[:16]), or(s.Path, "-"), s.Calls, s.Refused, s.ExpiresAt)
				}
			})
		}),
	}
}

func sessionCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "session",
		Short: "Look into one workspace session",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(sessionShowCommand(c), sessionLogCommand(c), sessionExportCommand(c))
	return cmd
}

func sessionShowCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "Show a session: state, path, counts and log head",
		Args:  cobra.ExactArgs(1),
		RunE: c.run(func(ctx context.Context, args []string) error {
			var s sessions.Session
			if err := c.get(ctx, sessionPath(args[0]), &s); err != nil {
				return err
			}
			return c.print(s, func(w io.Writer) { showSession(w, s) })
		}),
	}
}

func showSession(w io.Writer, s sessions.Session) {
	fmt.Fprintf(w, "session\t%s\n", s.SessionID)
	fmt.Fprintf(w, "role\t%s\n", s.Role)
	fmt.Fprintf(w, "state\t%s\n", strings.TrimSuffix(s.State+", "+s.Reason, ", "))
	fmt.Fprintf(w, "peer\t%s\n", strings.TrimSpace(s.PeerName+" "+s.Peer))
	path := "not connected"
	if s.Path != "" {
		path = fmt.Sprintf("%s, %.1f ms", s.Path, s.RTTMS)
	}
	fmt.Fprintf(w, "path\t%s\n", path)
	fmt.Fprintf(w, "cipher\t%s\n", s.Cipher)
	for i, r := range s.Roots {
		fmt.Fprintf(w, "%s\t%s (%s)\n", []string{"folders", ""}[min(i, 1)], r.Name, r.Rights)
	}
	fmt.Fprintf(w, "commands\t%s\n", or(strings.Join(s.Commands, ", "), "none"))
	fmt.Fprintf(w, "calls\t%d (%d allowed, %d refused)\n", s.Calls, s.Allowed, s.Refused)
	fmt.Fprintf(w, "bytes\t%d read, %d written\n", s.BytesRead, s.BytesWritten)
	fmt.Fprintf(w, "log\t%d records, root %s\n", s.LogSize, s.LogRoot)
	if s.Role == "requester" {
		fmt.Fprintf(w, "\t%d records signed by the provider\n", s.Acked)
	}
	fmt.Fprintf(w, "until\t%s\n", s.ExpiresAt)
}

func sessionLogCommand(c *cli) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "log ID",
		Short: "Print the session log, with the paths this side knows",
		Args:  cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the session ends")
	cmd.RunE = c.run(func(ctx context.Context, args []string) error {
		path := sessionPath(args[0]) + "/log"
		if follow {
			path += "?follow=1"
		}
		return c.stream(ctx, path, func(raw []byte) error {
			var l sessions.LogLine
			if err := json.Unmarshal(raw, &l); err != nil {
				return fmt.Errorf("read record: %w", err)
			}
			what := strings.TrimSpace(strings.Join([]string{l.Tool, l.Verdict, l.Code, l.Path, l.Note}, " "))
			_, err := fmt.Fprintf(c.out, "%5d  %s  %-8s %s\n", l.Seq, clock(l.Time), l.Type, strings.Join(strings.Fields(what), " "))
			return err
		})
	})
	return cmd
}

func sessionExportCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "export ID FILE",
		Short: "Write the session log to a file that receipt verify --log checks",
		Args:  cobra.ExactArgs(2),
		RunE: c.run(func(ctx context.Context, args []string) error {
			client, err := c.client()
			if err != nil {
				return err
			}
			defer client.Close()
			if err := client.Get(ctx, sessionPath(args[0]), nil); err != nil {
				return err // before a file is made
			}
			file, err := os.OpenFile(args[1], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if errors.Is(err, fs.ErrExist) {
				return api.Errorf(api.Conflict, "%s exists", args[1]).Try("give a new name")
			}
			if err != nil {
				return api.From(err)
			}
			err = client.Copy(ctx, sessionPath(args[0])+"/export", file)
			if closed := file.Close(); err == nil {
				err = closed
			}
			if err != nil {
				os.Remove(args[1])
				return err
			}
			return c.print(map[string]string{"file": args[1]}, func(w io.Writer) { fmt.Fprintf(w, "wrote %s\n", args[1]) })
		}),
	}
}

func watchCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "watch ID",
		Short: "Show each call of a session as it happens",
		Args:  cobra.ExactArgs(1),
		RunE:  c.run(func(ctx context.Context, args []string) error { return c.watch(ctx, args[0]) }),
	}
}

// watch prints events until the session has ended or Ctrl-C.
func (c *cli) watch(ctx context.Context, id string) error {
	err := c.stream(ctx, sessionPath(id)+"/watch", func(raw []byte) error {
		var e requester.Event
		if err := json.Unmarshal(raw, &e); err != nil {
			return fmt.Errorf("read event: %w", err)
		}
		at := time.UnixMilli(e.Time).Format("15:04:05")
		if e.Tool == "" {
			_, err := fmt.Fprintf(c.out, "%s  -- %s\n", at, strings.TrimSuffix(e.State+": "+e.Note, ": "))
			return err
		}
		_, err := fmt.Fprintf(c.out, "%s  %-7s %-14s %s\n", at, e.Verdict, e.Tool, eventTail(e))
		return err
	})
	if ctx.Err() == context.Canceled {
		return nil // Ctrl-C is how watching ends
	}
	return err
}

func eventTail(e requester.Event) string {
	tail := e.Path
	if e.Code != "" {
		tail += "  [" + e.Code + "]"
	}
	if e.Warning != "" {
		tail += "  ! " + e.Warning
	}
	return strings.TrimSpace(fmt.Sprintf("%s  %d ms, %d bytes", tail, e.MS, e.Bytes))
}

// stream prints one JSON document a line with --json, else what show makes of
// each event.
func (c *cli) stream(ctx context.Context, path string, show func(raw []byte) error) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Events(ctx, "GET", path, nil, func(raw []byte) error {
		if c.json {
			_, err := fmt.Fprintf(c.out, "%s\n", raw)
			return err
		}
		return show(raw)
	})
}

func stopCommand(c *cli) *cobra.Command {
	return c.decision("stop ID", "Stop a session at once: kill its commands, refuse what waits; or leave one you work in", "stop", func(s sessions.Stopped) string {
		if s.State == "left" {
			return "left; the requester signs the receipt. See it: weft receipt get " + s.SessionID[:8]
		}
		return fmt.Sprintf("%s in %d ms; nothing of it runs any more. Receipt: weft receipt get %s", s.State, s.TookMS, s.SessionID[:8])
	})
}

func pauseCommand(c *cli) *cobra.Command {
	return c.decision("pause ID", "Hold a session's calls until resume", "pause", func(s sessions.Stopped) string {
		return "paused; go on with: weft resume " + s.SessionID[:8]
	})
}

func resumeCommand(c *cli) *cobra.Command {
	return c.decision("resume ID", "Let a paused session go on", "resume", func(sessions.Stopped) string { return "open" })
}

// decision is a verb that changes a session's state.
func (c *cli) decision(use, short, verb string, say func(sessions.Stopped) string) *cobra.Command {
	var in sessions.StopRequest
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVar(&in.Reason, "reason", "", "a word for the other side and the log")
	cmd.RunE = c.run(func(ctx context.Context, args []string) error {
		var out sessions.Stopped
		if err := c.do(ctx, "POST", sessionPath(args[0])+"/"+verb, in, &out); err != nil {
			return err
		}
		return c.print(out, func(w io.Writer) { fmt.Fprintln(w, say(out)) })
	})
	return cmd
}

func clock(rfc3339 string) string {
	t, err := time.Parse(time.RFC3339Nano, rfc3339)
	if err != nil {
		return rfc3339
	}
	return t.Local().Format("15:04:05.000")
}
