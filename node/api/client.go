package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/weftmesh/weft/node/home"
	"github.com/weftmesh/weft/protocols/strict"
)

// maxReply bounds a response body: session logs and listings stay under it,
// bulk bytes go over Upgrade.
const maxReply = 16 << 20

// Client speaks to the node that runs on a home. It is safe for use by several
// goroutines.
type Client struct {
	dir   home.Dir
	addr  string
	token string
	http  *http.Client
}

// Dial finds the running node of a home. It returns a NotRunning error if
// there is none; it doesn't connect yet.
func Dial(dir home.Dir) (*Client, error) {
	// The lock is asked first: after a crash the address file is still there,
	// and by now the port may belong to a stranger.
	pid, running := dir.Running()
	if !running {
		return nil, notRunning(dir)
	}
	addr, err := readSmall(filepath.Join(dir.API(), addressFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, Errorf(NotRunning, "weft (pid %d) on %s is starting or stopping", pid, dir).Try("try again in a moment")
	}
	if err != nil {
		return nil, err
	}
	if err := checkLoopback(addr); err != nil {
		return nil, fmt.Errorf("api/address: %w", err)
	}
	token, err := readSmall(filepath.Join(dir.API(), tokenFile))
	if err != nil {
		return nil, err
	}
	return &Client{dir: dir, addr: addr, token: token, http: &http.Client{
		Transport: &http.Transport{DialContext: (&net.Dialer{}).DialContext}, // no proxy, ever
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // the token goes nowhere else
		},
	}}, nil
}

func notRunning(dir home.Dir) *Error {
	return Errorf(NotRunning, "weft is not running on this home (%s)", dir).Try("weft up")
}

// readSmall reads a file of one short line.
func readSmall(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(raw)), nil
}

// Close lets idle connections go.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Get asks for path and decodes the response into out, which may be nil.
func (c *Client) Get(ctx context.Context, path string, out any) error {
	return c.Do(ctx, http.MethodGet, path, nil, out)
}

// Post sends in to path and decodes the response into out; both may be nil.
func (c *Client) Post(ctx context.Context, path string, in, out any) error {
	return c.Do(ctx, http.MethodPost, path, in, out)
}

// Do makes one request. The error of an answer that isn't a success is an
// *Error.
func (c *Client) Do(ctx context.Context, method, path string, in, out any) error {
	resp, err := c.send(ctx, method, path, in, "application/json")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	if err != nil {
		return c.fault(ctx, err)
	}
	if raw, ok := out.(*[]byte); ok {
		*raw = body
		return nil
	}
	if out == nil || len(body) == 0 {
		return nil
	}
	if len(body) > maxReply {
		return Errorf(Internal, "the daemon's answer is over %d bytes", maxReply).Try("ask for less at a time")
	}
	// Our own daemon is trusted, and one newer than the command may say more
	// than the command knows: unknown members are skipped.
	if err := json.Unmarshal(body, out); err != nil {
		return Errorf(Skew, "can't read the daemon's answer: %v", err).
			Try("restart weft: the command and the daemon may be of different versions")
	}
	return nil
}

// send makes a request and turns a refusal into its error.
func (c *Client) send(ctx context.Context, method, path string, in any, accept string) (*http.Response, error) {
	req, err := c.request(ctx, method, path, in)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.fault(ctx, err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil {
		return nil, c.fault(ctx, err)
	}
	return nil, parseError(resp.StatusCode, body)
}

func (c *Client) request(ctx context.Context, method, path string, in any) (*http.Request, error) {
	var body io.Reader
	if in != nil {
		raw, err := strict.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(raw)
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == "." || part == ".." { // the server would read another path
			return nil, Errorf(Invalid, "%q is no id and no name", part).Try("weft sessions, weft offers and weft peer list show them")
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.addr+path, body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

// fault names what went wrong with the connection itself.
func (c *Client) fault(ctx context.Context, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return Errorf(Timeout, "the daemon did not answer in time").Try("allow more time with --timeout, or weft doctor")
	case ctx.Err() != nil:
		return fmt.Errorf("asked to stop: %w", ctx.Err())
	}
	if _, running := c.dir.Running(); !running {
		return Errorf(NotRunning, "weft stopped while it was asked").Try("weft up")
	}
	return Errorf(NotRunning, "can't talk to weft at %s: %v", c.addr, err).Try("see what weft up printed, or restart it")
}
