package api

import (
	"context"
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

// Proxy returns a handler that passes every request to one path of the daemon,
// with the client's token. Whoever listens with it checks who may ask.
func (c *Client) Proxy(path string) http.Handler {
	target := &url.URL{Scheme: "http", Host: c.addr, Path: path}
	return &httputil.ReverseProxy{
		FlushInterval: -1, // progress reaches the agent as it comes
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL = target
			r.Out.Host = c.addr
			r.Out.Header.Del("Origin")
			r.Out.Header.Set("Authorization", "Bearer "+c.token)
		},
	}
}
