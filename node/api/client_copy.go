package api

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
)

// Copy asks for path and writes the body of the answer to w as it comes, of
// whatever length. A body that breaks off is an error.
func (c *Client) Copy(ctx context.Context, path string, w io.Writer) error {
	resp, err := c.send(ctx, http.MethodGet, path, nil, "*/*")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(w, resp.Body); err != nil {
		return c.fault(ctx, err)
	}
	return nil
}

// maxProxied bounds a request body that Proxy passes on. The daemon's own limit
// is lower, and its answer says so.
const maxProxied = 8 << 20

// Proxy returns a handler that passes every request to one path of the daemon,
// with the client's token. Whoever listens with it checks who may ask.
func (c *Client) Proxy(path string) http.Handler {
	target := &url.URL{Scheme: "http", Host: c.addr, Path: path}
	proxy := &httputil.ReverseProxy{
		Transport:     c.http.Transport,
		FlushInterval: -1, // progress reaches the agent as it comes
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			writeError(w, From(c.fault(r.Context(), err)))
		},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL = target
			r.Out.Host = c.addr
			r.Out.Header.Del("Origin")
			r.Out.Header.Set("Authorization", "Bearer "+c.token)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The first byte of an answer closes a request's body in the server
		// (net/http.ResponseWriter). A transport that still looks for its end
		// then breaks the connection, and the answer with it.
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxProxied))
		if err != nil {
			writeError(w, From(fmt.Errorf("read request: %w", err)))
			return
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		if len(body) == 0 {
			r.Body = http.NoBody
		}
		proxy.ServeHTTP(w, r)
	})
}
