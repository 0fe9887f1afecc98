package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/node/home"
)

// defaultTimeout bounds a verb that only asks the daemon something. Verbs that
// stream have no bound unless --timeout gives one.
const defaultTimeout = 30 * time.Second

// cli is what all verbs share: the global flags and the streams.
type cli struct {
	home    string
	json    bool
	quiet   bool
	timeout time.Duration

	in       io.Reader
	out, err io.Writer

	// stopSignals makes the next signal end the process at once.
	stopSignals func()
}

// newRootCommand makes the command tree. Verb groups are added here, one line
// each.
func newRootCommand(c *cli) *cobra.Command {
	root := &cobra.Command{
		Use:   "weft",
		Short: "Let a remote agent work in your folder, and prove what it did",
		Long: `weft makes this machine a peer with its own key. With it you grant a remote
agent scoped, logged, revocable work in a real folder, over a connection that
nobody in between can read, and both sides hold a receipt of what was done.

Exit codes: 0 done, 1 internal, 2 usage, 3 not running or unreachable,
4 denied, 5 not found, 6 conflict or already done, 7 bad input or bad
signature, 8 timeout.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	flags := root.PersistentFlags()
	flags.StringVar(&c.home, "home", "", "the node's directory (default $"+home.Env+", else the platform's data directory)")
	flags.BoolVar(&c.json, "json", false, "print JSON: one document, or one a line for streams")
	flags.BoolVar(&c.quiet, "quiet", false, "print only what was asked for, and errors")
	flags.DurationVar(&c.timeout, "timeout", 0, "give up after this long, such as 10s (default 30s; streams and up: never)")
	root.AddCommand(
		upCommand(c),
		idCommand(c),
		statusCommand(c),
		peerCommand(c),
		pingCommand(c),
		netcheckCommand(c),
		relayOnlyCommand(c),
		doctorCommand(c),
		versionCommand(c),
		completionCommand(c),

		// workspace, the requester's side
		shareCommand(c),
		sessionsCommand(c),
		sessionCommand(c),
		watchCommand(c),
		stopCommand(c),
		pauseCommand(c),
		resumeCommand(c),
		profilesCommand(c),

		// workspace, the provider's side
		offersCommand(c),
		acceptCommand(c),
		declineCommand(c),
		mcpCommand(c),
		workCommand(c),
		callCommand(c),

		receiptCommand(c),
		demoCommand(c),
	)
	return root
}

// verb is what a command does, without cobra in it.
type verb func(ctx context.Context, args []string) error

// run makes a RunE of a verb. It marks errors as ours, so that what cobra
// finds wrong with the command line can be told apart.
func (c *cli) run(v verb) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if c.timeout < 0 {
			return api.Errorf(api.Usage, "--timeout %v is negative", c.timeout).Try("give a duration such as 10s")
		}
		ctx := cmd.Context()
		if c.timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, c.timeout)
			defer cancel()
		}
		err := v(ctx, args)
		if _, agent := err.(exitCode); agent || err == nil {
			return err
		}
		return api.From(err)
	}
}

// ask bounds a question to the daemon.
func (c *cli) ask(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.timeout > 0 {
		return context.WithCancel(ctx) // already bounded
	}
	return context.WithTimeout(ctx, defaultTimeout)
}

// dir is the home that was asked for.
func (c *cli) dir() (home.Dir, error) {
	if c.home != "" {
		return home.Dir(c.home), nil
	}
	return home.Default()
}

// client finds the running daemon.
func (c *cli) client() (*api.Client, error) {
	dir, err := c.dir()
	if err != nil {
		return nil, err
	}
	return api.Dial(dir)
}

// get asks the daemon one thing.
func (c *cli) get(ctx context.Context, path string, out any) error {
	return c.do(ctx, "GET", path, nil, out)
}

// do makes one request to the daemon.
func (c *cli) do(ctx context.Context, method, path string, in, out any) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := c.ask(ctx)
	defer cancel()
	return client.Do(ctx, method, path, in, out)
}

// exitCode is the exit code of an agent that weft work ran. The agent has said
// itself what was wrong.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("the agent ended with exit code %d", int(e)) }

// fail prints an error and returns its exit code.
func (c *cli) fail(err error, args []string) int {
	if code := exitCode(0); errors.As(err, &code) {
		return int(code)
	}
	var e *api.Error
	if !errors.As(err, &e) {
		// cobra's own: the command line can't be read. Parsing may have
		// stopped before --json.
		e = api.Errorf(api.Usage, "%v", err).Try("weft --help, or weft VERB --help")
		end := slices.Index(args, "--")
		if end < 0 {
			end = len(args)
		}
		c.json = c.json || slices.Contains(args[:end], "--json")
	}
	if c.json {
		fmt.Fprintf(c.err, "%s\n", e.JSON())
		return e.Kind.ExitCode()
	}
	fmt.Fprintf(c.err, "weft: %s\n", e.Message)
	if e.Hint != "" {
		fmt.Fprintf(c.err, "  Try: %s\n", e.Hint)
	}
	return e.Kind.ExitCode()
}
