package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Guard lets a request through to next only if it comes from a program that
// may read the token file. In this order:
//
//   - Host must be a loopback name with our port, so a page that had its own
//     name resolve to 127.0.0.1 (DNS rebinding) gets nothing;
//   - Origin must be absent or our own, so no other page's script gets in;
//   - Authorization must be "Bearer TOKEN".
//
// A request needs the header, which a form or an image can't set, so a
// cross-site request carries no authority (CSRF). addr is the listener's
// address.
func Guard(next http.Handler, addr, token string) http.Handler {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		port = "" // matches no Host
	}
	want := sha256.Sum256([]byte("Bearer " + token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Nothing of ours is for a cache or for another site to embed.
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		if !loopbackHost(r.Host, port) {
			writeError(w, Errorf(Denied, "host %.80q is not this API", r.Host).WithCode("bad_host").
				Try("use the address in the api/address file of the node's home"))
			return
		}
		if !ownOrigin(r, port) {
			writeError(w, Errorf(Denied, "origin %.80q may not use this API", r.Header.Get("Origin")).WithCode("bad_origin"))
			return
		}
		// Hashing first makes the comparison's time independent of lengths.
		got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
		if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			writeError(w, Errorf(Unauthorized, "missing or wrong API token").
				Try("send \"Authorization: Bearer\" and the contents of the api/token file of the node's home; it changes at each start"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// loopbackHost reports whether a Host header names this machine's loopback and
// our port.
func loopbackHost(host, port string) bool {
	name, p, err := net.SplitHostPort(host)
	if err != nil || p != port || port == "" {
		return false
	}
	if strings.EqualFold(name, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.IsLoopback() && ip.Zone() == ""
}

// ownOrigin reports whether the request comes from no page or from ours.
func ownOrigin(r *http.Request, port string) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default:
		return false
	}
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return true
	}
	host, ok := strings.CutPrefix(origins[0], "http://")
	// Same host as asked for: localhost and 127.0.0.1 are two origins.
	return ok && len(origins) == 1 && loopbackHost(host, port) && strings.EqualFold(host, r.Host)
}
