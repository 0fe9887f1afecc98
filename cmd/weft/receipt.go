package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/workspace/receipt"
)

// maxFile bounds the files that the offline verbs read into memory.
const maxFile = 1 << 20

func receiptCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "receipt",
		Short: "Get, show and verify receipts and proofs",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(receiptGetCommand(c), receiptVerifyCommand(c, "show"), receiptVerifyCommand(c, "verify"), receiptProveCommand(c), receiptCheckCommand(c))
	return cmd
}

func receiptGetCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "get ID",
		Short:   "Print a session's receipt, the document itself",
		Example: "  weft receipt get k3j2h1g5 > receipt.json",
		Args:    cobra.ExactArgs(1),
		RunE: c.run(func(ctx context.Context, args []string) error {
			return c.fetch(ctx, sessionPath(args[0])+"/receipt?wait=1")
		}),
	}
}

func receiptProveCommand(c *cli) *cobra.Command {
	var seq uint64
	cmd := &cobra.Command{
		Use:     "prove ID --seq N",
		Short:   "Print the proof that one record is in a session's log",
		Long:    "Print a file that proves one record of a session's log and discloses what it names, and nothing else of the log.",
		Example: "  weft receipt prove k3j2h1g5 --seq 12 > proof.json",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().Uint64Var(&seq, "seq", 0, "the record's number (weft session log ID)")
	if err := cmd.MarkFlagRequired("seq"); err != nil {
		panic(err) // the flag was made a line above
	}
	cmd.RunE = c.run(func(ctx context.Context, args []string) error {
		return c.fetch(ctx, fmt.Sprintf("%s/proof/%d", sessionPath(args[0]), seq))
	})
	return cmd
}

// fetch prints a document of the daemon byte for byte.
func (c *cli) fetch(ctx context.Context, path string) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := c.ask(ctx)
	defer cancel()
	var raw []byte
	if err := client.Get(ctx, path, &raw); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "%s\n", raw)
	return err
}

// receiptVerifyCommand is both show and verify: nothing is shown that was not
// verified.
func receiptVerifyCommand(c *cli, verb string) *cobra.Command {
	var logFile string
	short := map[string]string{"show": "Show what a receipt says, if it is valid", "verify": "Verify a receipt offline"}[verb]
	cmd := &cobra.Command{Use: verb + " FILE", Short: short, Args: cobra.ExactArgs(1),
		Long: short + ". It needs nothing but the file (- for standard input); with --log, the exported log is checked against it record by record."}
	cmd.Flags().StringVar(&logFile, "log", "", "also check this exported log (weft session export)")
	cmd.RunE = c.run(func(_ context.Context, args []string) error {
		raw, err := c.readFile(args[0])
		if err != nil {
			return err
		}
		var v receipt.Verdict
		if logFile == "" {
			v, err = receipt.Verify(raw)
		} else {
			v, err = c.verifyWithLog(raw, logFile)
		}
		if err != nil {
			return invalid(err, "receipt")
		}
		return c.print(v, func(w io.Writer) { showVerdict(w, v) })
	})
	return cmd
}

func (c *cli) verifyWithLog(raw []byte, name string) (receipt.Verdict, error) {
	file, err := openFile(name)
	if err != nil {
		return receipt.Verdict{}, err
	}
	defer file.Close()
	return receipt.VerifyExport(file, raw)
}

func receiptCheckCommand(c *cli) *cobra.Command {
	var with string
	cmd := &cobra.Command{
		Use:   "check PROOF",
		Short: "Check a proof offline",
		Args:  cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&with, "receipt", "", "the receipt that the proof must belong to")
	cmd.RunE = c.run(func(_ context.Context, args []string) error {
		proof, err := c.readFile(args[0])
		if err != nil {
			return err
		}
		var raw []byte
		if with != "" {
			if raw, err = c.readFile(with); err != nil {
				return err
			}
		}
		d, err := receipt.Check(proof, raw)
		if err != nil {
			return invalid(err, "proof")
		}
		return c.print(d, func(w io.Writer) { showDisclosed(w, d) })
	})
	return cmd
}

// invalid makes exit 7 of whatever is wrong with a document. An error that has
// its kind already, such as a missing file's, keeps it.
func invalid(err error, what string) error {
	if known := (*api.Error)(nil); errors.As(err, &known) {
		return known
	}
	return api.Errorf(api.Invalid, "the %s is not valid: %v", what, err).WithCode("not_valid").
		Try("get it again from the one who holds it; a changed byte can't be repaired")
}

// readFile reads a file of bounded size, - for standard input. One newline at
// the end is the shell's, not the document's.
func (c *cli) readFile(name string) ([]byte, error) {
	var in io.Reader = c.in
	if name != "-" {
		file, err := openFile(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(raw) > maxFile {
		return nil, api.Errorf(api.Invalid, "%s is over %d bytes", name, maxFile).Try("give the file that weft receipt wrote")
	}
	if n := len(raw); n > 0 && raw[n-1] == '\n' {
		raw = raw[:n-1]
	}
	return raw, nil
}

// openFile opens a regular file to read.
func openFile(name string) (*os.File, error) {
	st, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, api.Errorf(api.NotFound, "there is no file %s", name).Try("check the name; weft receipt get ID > FILE makes one")
	case err != nil:
		return nil, api.From(err)
	case !st.Mode().IsRegular():
		return nil, api.Errorf(api.Invalid, "%s is not a regular file", name).Try("give the file that weft receipt wrote")
	}
	return os.Open(name)
}

func showVerdict(w io.Writer, v receipt.Verdict) {
	signed := "both sides"
	if !v.Cosigned {
		signed = fmt.Sprintf("the requester; the provider did not acknowledge the last %d records", v.Unacked)
	}
	fmt.Fprintf(w, "receipt\tvalid\n")
	fmt.Fprintf(w, "session\t%s, %s\n", v.Session, v.State)
	fmt.Fprintf(w, "requester\t%s\n", v.Requester)
	fmt.Fprintf(w, "provider\t%s\n", v.Provider)
	fmt.Fprintf(w, "signed by\t%s\n", signed)
	fmt.Fprintf(w, "log\t%d records, root %s\n", v.Records, v.Root)
	if v.LogVerified {
		fmt.Fprintf(w, "\tthe exported log matches, record by record\n")
	}
	var tools []string
	for tool := range v.Counts {
		tools = append(tools, tool)
	}
	slices.Sort(tools)
	for i, tool := range tools {
		var parts []string
		for _, verdict := range []string{"ok", "failed", "denied", "unknown"} {
			for k, n := range v.Counts[tool] {
				if string(k) == verdict {
					parts = append(parts, fmt.Sprintf("%d %s", n, verdict))
				}
			}
		}
		fmt.Fprintf(w, "%s\t%s: %s\n", []string{"calls", ""}[min(i, 1)], tool, strings.Join(parts, ", "))
	}
	if v.Unknown > 0 {
		fmt.Fprintf(w, "unknown\t%d calls may or may not have been done\n", v.Unknown)
	}
}

func showDisclosed(w io.Writer, d receipt.Disclosed) {
	fmt.Fprintf(w, "proof\tvalid\n")
	fmt.Fprintf(w, "session\t%s\n", d.Session)
	fmt.Fprintf(w, "record\t%d of %d: %s %s %s %s\n", d.Seq, d.Records, d.Record.Type, d.Record.Tool, d.Record.Verdict, d.Record.Code)
	for _, o := range d.Opened {
		fmt.Fprintf(w, "%s\t%s\n", o.Field, o.Text)
	}
}
