package files

import (
	"bytes"
	"sort"
	"strings"
)

// lfView is a text with CRLF lines, seen with LF only, so that text from a model
// matches; and the way back.
type lfView struct {
	full []byte // as it is
	text []byte // each CRLF as LF
	cr   []int  // where in text a newline had a CR, rising
}

// crlfView makes the view if it is needed: the text has CRLF lines and old says
// nothing about CR.
func crlfView(full []byte, old string) *lfView {
	if strings.Contains(old, "\r") || !bytes.Contains(full, []byte("\r\n")) {
		return nil
	}
	v := &lfView{full: full, text: make([]byte, 0, len(full))}
	for rest := full; ; {
		i := bytes.Index(rest, []byte("\r\n"))
		if i < 0 {
			v.text = append(v.text, rest...)
			return v
		}
		v.text = append(v.text, rest[:i]...)
		v.cr = append(v.cr, len(v.text))
		v.text = append(v.text, '\n')
		rest = rest[i+2:]
	}
}

// raw is the place in the full text of a place in the view. A newline's place
// is that of its CR.
func (v *lfView) raw(i int) int { return i + sort.SearchInts(v.cr, i) }

// endings gives the lines of a replacement the endings of the lines in its
// place, one by one; lines beyond those get the ending of the last, or else of
// the line that the replacement is in.
func (v *lfView) endings(at span, repl []byte) []byte {
	crlf := v.endingAfter(at.to)
	var olds []bool
	for rest := v.full[at.from:at.to]; ; {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			break
		}
		olds = append(olds, i > 0 && rest[i-1] == '\r')
		rest = rest[i+1:]
	}
	if len(olds) > 0 {
		crlf = olds[len(olds)-1]
	}
	out := make([]byte, 0, len(repl)+bytes.Count(repl, []byte{'\n'}))
	n := 0
	for i, c := range repl {
		if c == '\n' {
			is := crlf
			if n < len(olds) {
				is = olds[n]
			}
			n++
			if is && (i == 0 || repl[i-1] != '\r') {
				out = append(out, '\r')
			}
		}
		out = append(out, c)
	}
	return out
}

// endingAfter reports whether the line at a place ends in CRLF; for a last line
// without an end, whether the one before does.
func (v *lfView) endingAfter(at int) bool {
	if i := bytes.IndexByte(v.full[at:], '\n'); i >= 0 {
		i += at
		return i > 0 && v.full[i-1] == '\r'
	}
	i := bytes.LastIndexByte(v.full[:at], '\n')
	return i > 0 && v.full[i-1] == '\r'
}
