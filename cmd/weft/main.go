// Command weft runs a node and speaks to it.
//
// It has one file a verb group and no logic of its own: a verb reads its
// flags, asks the node over the loopback API (node/api), and prints the
// answer. Only `up`, `id`, `version` and `completion` work without a running
// node, and the verbs that check receipts offline.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run is the whole command: it returns the exit code.
func run(args []string, in io.Reader, out, errw io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c := &cli{in: in, out: out, err: errw, stopSignals: stop}
	root := newRootCommand(c)
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errw)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	return c.fail(err, args)
}
