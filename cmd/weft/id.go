package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	qr "github.com/piglig/go-qr"
	"github.com/spf13/cobra"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/protocols/identity"
)

// identityOutput is the output of `weft id`.
type identityOutput struct {
	PeerID      string `json:"peerId"`
	AgentID     string `json:"agentId"`
	DID         string `json:"did"`
	Fingerprint string `json:"fingerprint"`
}

func idCommand(c *cli) *cobra.Command {
	asQR := false
	cmd := &cobra.Command{
		Use:   "id",
		Short: "Show who this node is (works offline)",
		Long: `Show the spellings of this node's key. It works without a running node, and
makes the key if there is none yet.

The fingerprint is what two people read to each other to be sure.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&asQR, "qr", false, "show the did:key as a QR code too")
	cmd.RunE = c.run(func(context.Context, []string) error {
		if asQR && c.json {
			return api.Errorf(api.Usage, "--qr and --json exclude each other").Try("leave one out")
		}
		dir, err := c.dir()
		if err != nil {
			return err
		}
		if err := dir.Create(); err != nil {
			return err
		}
		key, err := identity.LoadOrCreate(dir.Key())
		if err != nil {
			return err
		}
		p := key.Public()
		out := identityOutput{PeerID: string(p.PeerID()), AgentID: string(p.AgentID()), DID: p.DID(), Fingerprint: p.Fingerprint()}
		if asQR {
			code, err := qrText(out.DID)
			if err != nil {
				return err
			}
			fmt.Fprint(c.out, code)
		}
		return c.print(out, func(w io.Writer) {
			fmt.Fprintf(w, "peer id\t%s\n", out.PeerID)
			fmt.Fprintf(w, "agent id\t%s\n", out.AgentID)
			fmt.Fprintf(w, "did\t%s\n", out.DID)
			fmt.Fprintf(w, "fingerprint\t%s\n", out.Fingerprint)
		})
	})
	return cmd
}

// quietZone is the light border that a reader needs (ISO/IEC 18004 asks for
// four modules; two are enough in practice and keep the code on a screen).
const quietZone = 2

// qrText draws a QR code with half blocks: a character is two modules high.
// Light modules are the blocks, since most terminals are dark.
func qrText(text string) (string, error) {
	code, err := qr.EncodeText(text, qr.Low)
	if err != nil {
		return "", fmt.Errorf("make QR code: %w", err)
	}
	size := code.Size()
	light := func(x, y int) bool {
		return x < 0 || y < 0 || x >= size || y >= size || !code.Module(x, y)
	}
	var b strings.Builder
	for y := -quietZone; y < size+quietZone; y += 2 {
		for x := -quietZone; x < size+quietZone; x++ {
			switch top, bottom := light(x, y), light(x, y+1); {
			case top && bottom:
				b.WriteRune('█')
			case top:
				b.WriteRune('▀')
			case bottom:
				b.WriteRune('▄')
			default:
				b.WriteByte(' ')
			}
		}
		b.WriteByte('\n')
	}
	return b.String(), nil
}
