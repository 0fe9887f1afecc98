// Command peer is the far side of the contenders that are not weft: a plain
// MCP server over a unix socket or streamable HTTP, and a libp2p host that
// answers requests of so many bytes with so many bytes. It prints one JSON
// line when it is ready and ends with its standard input.
//
//	peer mcp-unix DIR SOCKET
//	peer mcp-http DIR
//	peer raw FILE KEY LISTEN [RELAY]
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// ready is the first line of output.
type ready struct {
	// Addr is a socket's name, a URL, or multiaddrs joined by spaces.
	Addr string `json:"addr"`
}

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends with the process
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	say := func(addr string) error { return json.NewEncoder(os.Stdout).Encode(ready{addr}) }
	switch {
	case len(args) == 3 && args[0] == "mcp-unix":
		return serveUnix(ctx, args[1], args[2], say)
	case len(args) == 2 && args[0] == "mcp-http":
		return serveHTTP(ctx, args[1], say)
	case len(args) >= 4 && len(args) <= 5 && args[0] == "raw":
		return serveRaw(ctx, args[1], args[2], args[3], append(args, "")[4], say)
	}
	return fmt.Errorf("peer %q: see the package comment", args)
}
