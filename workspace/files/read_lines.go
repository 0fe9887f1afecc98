package files

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/weftmesh/weft/workspace"
)

// lines answers a line read.
func (rd *reading) lines() error {
	off, err := rd.seek(rd.q.StartLine)
	if err != nil {
		return err
	}
	// Most reads are done with the first window; only long lines, which are
	// shown cut, need more.
	for look := int64(rd.q.MaxBytes) + 1; ; look = min(look*4, maxLook) {
		to := min(rd.o.size, off+look)
		b, start, err := rd.window(off, to)
		if err != nil {
			return err
		}
		p := &page{q: &rd.q, v: newView(rd.t.redactor(), b), start: start,
			eof: start+int64(len(b)) >= rd.o.size, last: look >= maxLook}
		p.fill(int(off - start))
		if p.short && !p.last {
			continue
		}
		return rd.finish(p, off, b)
	}
}

// seek finds the offset of a line.
func (rd *reading) seek(line int) (int64, error) {
	off, at := rd.facts.near(line)
	if rd.facts != nil && line > max(rd.facts.lines, 1) {
		return 0, rd.pastEnd(rd.facts.lines)
	}
	if at == line {
		return off, nil
	}
	buf := make([]byte, min(256<<10, rd.o.size-off))
	for {
		if err := rd.t.alive(rd.ctx); err != nil {
			return 0, err
		}
		n, err := rd.f.ReadAt(buf, off)
		b := buf[:n]
		if c := bytes.Count(b, []byte{'\n'}); at+c < line {
			at += c
			if off += int64(n); n == 0 || err != nil {
				return 0, rd.pastEnd(at)
			}
			continue
		}
		for i := 0; ; at++ {
			if at == line {
				if off += int64(i); off >= rd.o.size {
					return 0, rd.pastEnd(at - 1)
				}
				return off, nil
			}
			i += bytes.IndexByte(b[i:], '\n') + 1
		}
	}
}

func (rd *reading) pastEnd(lines int) error {
	return workspace.Fail("not_found", "start_line=%d is past the end of %s, which has %d lines", rd.q.StartLine, rd.q.Path, lines)
}

func (rd *reading) finish(p *page, off int64, b []byte) error {
	r := &rd.res
	if !utf8.Valid(p.body) {
		return rd.notText(fmt.Sprintf("lines %d-%d have bytes that are not UTF-8", rd.q.StartLine, rd.q.StartLine+p.lines-1))
	}
	r.Kind, r.Body, r.Redacted = Text, p.body, p.redacted
	r.Offset, r.Length = off, p.start+int64(p.end)-off
	if p.lines > 0 {
		r.StartLine, r.EndLine = rd.q.StartLine, rd.q.StartLine+p.lines-1
	}
	total := "?"
	r.TotalLines = -1
	switch {
	case rd.facts != nil:
		r.TotalLines = rd.facts.lines
	case r.Offset+r.Length >= rd.o.size:
		r.TotalLines = r.EndLine
	}
	if r.TotalLines >= 0 {
		total = strconv.Itoa(r.TotalLines)
	}
	if end := r.Offset + r.Length; end < rd.o.size {
		r.Truncated, r.Next = true, fmt.Sprintf("start_line=%d", r.EndLine+1)
		if p.broken {
			r.Next = fmt.Sprintf("offset=%d", p.cutAt)
		}
	}
	r.EOL = rd.eol(b)
	rd.header(fmt.Sprintf("lines=%d-%d/%s", r.StartLine, r.EndLine, total), "eol="+r.EOL, bomField(r.BOM), "encoding=utf-8", truncated(r.Next))
	return nil
}

// page collects lines out of a view until the budget, the number of lines or
// the view ends.
type page struct {
	q     *ReadRequest
	v     *view
	start int64 // the file offset of the view
	eof   bool  // the view reaches the end of the file
	last  bool  // there is no bigger view

	body     []byte
	lines    int
	end      int // in the view: after the last line shown
	redacted int
	short    bool  // a bigger view would show more
	broken   bool  // the last line is longer than any view
	cutAt    int64 // where the last line that was cut goes on
}

func (p *page) fill(from int) {
	p.end = from
	p.body = make([]byte, 0, min(len(p.v.out), p.q.MaxBytes))
	for p.lines < p.q.MaxLines && p.end < len(p.v.raw) {
		next := len(p.v.raw)
		if i := bytes.IndexByte(p.v.raw[p.end:], '\n'); i >= 0 {
			next = p.end + i + 1
		} else if !p.eof {
			p.short = true
			if p.lines > 0 || !p.last {
				return
			}
			p.broken = true
			next = p.end + wholeRunes(p.v.raw[p.end:], next-p.end)
		}
		line, n := p.line(p.end, next)
		if len(p.body)+len(line) > p.q.MaxBytes {
			return
		}
		p.body = append(p.body, line...)
		p.redacted += n
		p.lines++
		p.end = next
	}
	p.short = p.lines < p.q.MaxLines && !p.eof
}

// line is one line as it is shown.
func (p *page) line(from, to int) ([]byte, int) {
	out, n := p.v.cut(from, to)
	if p.q.Numbers && len(out) > 0 {
		out = append(strconv.AppendInt(nil, int64(p.q.StartLine+p.lines), 10), append([]byte{'\t'}, out...)...)
	}
	cut := p.fits(out)
	if cut == len(out) {
		return out, n
	}
	at := p.start + int64(from)
	if n == 0 && !p.q.Numbers {
		at += int64(cut)
	}
	p.cutAt = at
	more := fmt.Sprintf("[line cut after %d of %d bytes: go on with offset=%d]\n", cut, len(out), at)
	return append(out[:cut:cut], more...), n
}

// fits is how much of a line is shown: all, or maxLineChars characters, or what
// the budget has room for with the words about the cut.
func (p *page) fits(out []byte) int {
	if room := p.q.MaxBytes - 128; len(out) > room {
		out = out[:wholeRunes(out, room)]
	}
	if len(out) <= maxLineChars || utf8.RuneCount(out) <= maxLineChars {
		return len(out)
	}
	cut := 0
	for range maxLineChars {
		_, size := utf8.DecodeRune(out[cut:])
		cut += size
	}
	return cut
}
