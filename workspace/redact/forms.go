package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"math"
	"net/url"
	"slices"
	"strings"
)

// everyday lists values that configuration files hold and that are no secrets.
// Masking them would make results unreadable (case 40 of the catalogue).
var everyday = map[string]bool{
	"development": true, "production": true, "localhost": true, "undefined": true, "127.0.0.1": true,
	"postgres": true, "postgresql": true, "password": true, "changeme": true, "disabled": true,
	"enabled": true, "required": true, "optional": true, "username": true, "database": true,
	"sqlite3": true, "memcached": true, "elasticsearch": true, "us-east-1": true, "us-west-2": true,
	"eu-west-1": true, "eu-central-1": true, "http://localhost": true, "https://localhost": true,
	"staging": true, "testing": true, "application/json": true, "text/plain": true,
}

// patternsOf returns the view forms of one value, nil if it can't be looked
// for. A value of several lines is looked for line by line, since programs
// print parts of files, and as a whole in its encoded forms.
func patternsOf(value []byte) [][]byte {
	value = bytes.TrimSpace(bytes.TrimPrefix(value, []byte("\xef\xbb\xbf")))
	var out [][]byte
	lines := bytes.Split(value, []byte("\n"))
	if len(lines) == 1 {
		if !worth(strip(value)) {
			return nil
		}
		return appendForms(nil, value)
	}
	whole := strip(value)
	if !worth(whole) {
		return nil
	}
	for _, line := range lines {
		line = bytes.TrimSpace(line)
		if v := strip(line); len(v) >= 16 && worth(v) && random(v) {
			out = appendForms(out, line)
		}
	}
	for _, f := range encoded(value) {
		keep := random
		if f.opaque {
			keep = anyPiece
		}
		out = appendPieces(out, strip(f.text), keep)
	}
	// A value without one random-looking line (a passphrase file, a list of
	// words) is still looked for as a whole.
	if len(whole) <= maxWhole {
		out = append(out, whole)
	} else {
		out = appendPieces(out, whole, random)
	}
	return slices.DeleteFunc(out, func(p []byte) bool { return len(p) < window })
}

func appendForms(out [][]byte, value []byte) [][]byte {
	out = appendPieces(out, strip(value), worth)
	for _, f := range encoded(value) {
		out = appendPieces(out, strip(f.text), anyPiece)
	}
	return out
}

func anyPiece([]byte) bool { return true }

// appendPieces adds v whole, or cut into pieces of which the last overlaps.
func appendPieces(out [][]byte, v []byte, keep func([]byte) bool) [][]byte {
	if len(v) < window {
		return out
	}
	if len(v) <= maxWhole {
		return append(out, v)
	}
	for i := 0; i < len(v); i += piece {
		p := v[min(i, len(v)-piece):]
		if p = p[:piece]; keep(p) {
			out = append(out, p)
		}
	}
	return out
}

// form is one wire form. An opaque one shares no stretch with the value's own
// text, so none of its pieces can be prose.
type form struct {
	text   []byte
	opaque bool
}

// encoded lists the wire forms of value other than value itself.
func encoded(value []byte) []form {
	s := string(value)
	var out []form
	opaque := true
	add := func(f string) {
		if f != s {
			out = append(out, form{[]byte(f), opaque})
		}
	}
	for lead := range 3 {
		// The value at offset lead (mod 3) in other data: the characters at
		// both edges that carry neighbouring bits are left off.
		raw := append(make([]byte, lead), value...)
		enc := base64.RawStdEncoding.EncodeToString(raw)
		enc = enc[(lead*8+5)/6 : len(raw)*8/6]
		add(enc)
		add(strings.NewReplacer("+", "-", "/", "_").Replace(enc))
	}
	h := hex.EncodeToString(value)
	add(h)
	add(strings.ToUpper(h))
	rev := slices.Clone(value)
	slices.Reverse(rev)
	add(string(rev))

	opaque = false
	q := url.QueryEscape(s)
	add(q)
	add(strings.ReplaceAll(q, "+", "%20"))
	add(url.PathEscape(s))
	lower := lowerEscapes(q)
	add(lower)
	add(strings.ReplaceAll(lower, "+", "%20"))
	for _, escapeHTML := range []bool{true, false} {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(escapeHTML)
		if e.Encode(s) == nil {
			add(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(b.String()), `"`), `"`))
		}
	}
	add(html.EscapeString(s))
	return out
}

// lowerEscapes writes the percent escapes of s with lower-case hex digits.
func lowerEscapes(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			b[i+1], b[i+2] = lowerHex(b[i+1]), lowerHex(b[i+2])
			i += 2
		}
	}
	return string(b)
}

func lowerHex(c byte) byte {
	if 'A' <= c && c <= 'F' {
		return c + 'a' - 'A'
	}
	return c
}

// worth reports whether a value can be looked for without masking ordinary
// text: long enough, at least four different bytes and two bits of entropy a
// byte, and no everyday word.
func worth(v []byte) bool {
	if len(v) < MinLength || everyday[strings.ToLower(string(v))] {
		return false
	}
	var count [256]int
	distinct := 0
	for _, c := range v {
		if count[c] == 0 {
			distinct++
		}
		count[c]++
	}
	bits := 0.0
	for _, n := range count {
		if n > 0 {
			p := float64(n) / float64(len(v))
			bits -= p * math.Log2(p)
		}
	}
	return distinct >= 4 && bits >= 2
}

// random reports whether a part of a longer text looks like key material
// rather than prose or code: it has a digit, or its case changes often. Of 24
// base64 characters without a digit fewer than one in 10^4 fail.
func random(v []byte) bool {
	changes, last := 0, byte(0)
	for _, c := range v {
		switch {
		case '0' <= c && c <= '9':
			return true
		case 'a' <= c && c <= 'z':
			if last == 'A' {
				changes++
			}
			last = 'a'
		case 'A' <= c && c <= 'Z':
			if last == 'a' {
				changes++
			}
			last = 'A'
		}
	}
	return changes >= 4
}
