package api

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/go-json-experiment/json"
)

// maxEvent bounds one line of an event stream.
const maxEvent = 4 << 20

// Events makes a request whose answer is a stream, and calls fn with each
// event's JSON until the stream ends, fn returns an error or ctx is done. The
// bytes are valid until fn returns. A stream that ends without its end mark is
// an error.
func (c *Client) Events(ctx context.Context, method, path string, in any, fn func(event []byte) error) error {
	resp, err := c.send(ctx, method, path, in, "text/event-stream")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 0, 64<<10), maxEvent)
	name := ""
	for lines.Scan() {
		line := lines.Bytes()
		if len(line) == 0 {
			name = ""
			continue
		}
		if rest, ok := bytes.CutPrefix(line, []byte("event: ")); ok {
			name = string(rest)
			continue
		}
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok {
			continue // a keep-alive
		}
		switch name {
		case "":
			if err := fn(data); err != nil {
				return err
			}
		case "end":
			return nil
		case "error":
			return parseStreamError(data)
		}
	}
	if err := lines.Err(); err != nil {
		return c.fault(ctx, err)
	}
	return c.fault(ctx, io.ErrUnexpectedEOF)
}

// streamError is the last event of a stream that failed. The status of the
// response was sent long before, so the error's own is carried here.
type streamError struct {
	document
	Status int `json:"status"`
}

func parseStreamError(data []byte) *Error {
	var e streamError
	if err := json.Unmarshal(data, &e); err != nil {
		return parseError(http.StatusInternalServerError, data)
	}
	return &Error{Kind: kindOf(e.Status), Code: e.Error.Code, Message: e.Error.Message, Hint: e.Error.Hint}
}

// Upgrade makes a request that turns into a stream of raw bytes. The caller
// closes it; ctx bounds only the switch.
func (c *Client) Upgrade(ctx context.Context, path string) (*Conn, error) {
	req, err := c.request(ctx, http.MethodPost, path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", upgradeProtocol)
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return nil, c.fault(ctx, err)
	}
	unhook := context.AfterFunc(ctx, func() { conn.Close() })
	up, err := c.switchTo(ctx, conn, req)
	if err == nil && !unhook() {
		err = c.fault(ctx, ctx.Err())
	}
	if err != nil {
		unhook()
		conn.Close()
		return nil, err
	}
	return up, nil
}

func (c *Client) switchTo(ctx context.Context, conn net.Conn, req *http.Request) (*Conn, error) {
	if err := req.Write(conn); err != nil {
		return nil, c.fault(ctx, err)
	}
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, req)
	if err != nil {
		return nil, c.fault(ctx, err)
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return &Conn{Conn: conn, r: r}, nil
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 == 2 {
		return nil, Errorf(Skew, "the daemon did not switch to raw bytes").Try("restart weft")
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil {
		return nil, fmt.Errorf("read refusal: %w", c.fault(ctx, err))
	}
	return nil, parseError(resp.StatusCode, body)
}
