package api

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// upgradeProtocol names raw bytes in the Upgrade header.
const upgradeProtocol = "weft-stream"

// Conn is a connection of raw bytes in both directions.
type Conn struct {
	net.Conn
	r *bufio.Reader // holds what came with the headers
}

// Read reads what the other side wrote.
func (c *Conn) Read(p []byte) (int, error) { return c.r.Read(p) }

// CloseWrite says that no more bytes come, while reading goes on.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Conn.Close()
}

// Upgrade turns r's connection into raw bytes and runs fn on it. The
// connection is closed when fn returns; fn's context ends, and the connection
// is cut, when the server stops. An error of fn after the switch can't reach
// the client in HTTP: fn says it in its own protocol.
func Upgrade(w http.ResponseWriter, r *http.Request, fn func(ctx context.Context, c *Conn) error) error {
	if !strings.EqualFold(r.Header.Get("Upgrade"), upgradeProtocol) {
		return Errorf(Usage, "this route needs Upgrade: %s", upgradeProtocol)
	}
	ctx, cancel := streamContext(r)
	defer cancel()
	if sw, ok := w.(*statusWriter); ok {
		sw.hijacked, sw.status = true, http.StatusSwitchingProtocols
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return fmt.Errorf("take over the connection: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return fmt.Errorf("take over the connection: %w", err)
	}
	if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+upgradeProtocol+"\r\n\r\n"); err != nil {
		return fmt.Errorf("switch to raw bytes: %w", err)
	}
	unhook := context.AfterFunc(ctx, func() { conn.Close() })
	defer unhook()
	return fn(ctx, &Conn{Conn: conn, r: rw.Reader})
}
