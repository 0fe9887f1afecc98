package files

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/text/unicode/norm"
)

// Grep searches the redacted text of files.
func (t *Tree) Grep(ctx context.Context, q GrepRequest) (GrepResult, error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return GrepResult{}, explain(err, q.Path.String())
	}
	defer leave()
	g, err := newGrepping(t, ctx, &q)
	if err != nil {
		return GrepResult{}, err
	}
	o, err := t.resolve(q.Path, wantAny)
	if err != nil {
		return GrepResult{}, err
	}
	defer o.close()
	if o.regular() {
		err = g.file(o.pin, o.rel)
	} else if err = isDir(o, q.Path.String()); err == nil {
		g.base = o.rel
		err = g.walker.walk(o)
	}
	if err != nil && err != errStop {
		return GrepResult{}, explain(err, q.Path.String())
	}
	return g.result(), nil
}

// grepping is one search in progress.
type grepping struct {
	q      *GrepRequest
	m      *matcher
	glob   string // "" for all files
	base   string
	max    int // bytes of body
	walker walker
	body   bytes.Buffer
	buf    []byte
	res    GrepResult
	more   bool
}

func newGrepping(t *Tree, ctx context.Context, q *GrepRequest) (*grepping, error) {
	if q.Limit == 0 {
		q.Limit = grepDefault
	}
	if q.Limit < 1 || q.Limit > grepMax || q.Context < 0 || q.Context > grepContext {
		return nil, badArgs("limit is 1 to %d, context 0 to %d", grepMax, grepContext)
	}
	if q.Mode != "" && q.Mode != "content" && q.Mode != "files" && q.Mode != "count" {
		return nil, badArgs("mode is content, files or count")
	}
	g := &grepping{q: q, max: budget(q.MaxBytes)}
	if q.Glob != "" {
		if err := checkGlob(q.Glob); err != nil {
			return nil, badArgs("glob: %s", err)
		}
		g.glob = norm.NFC.String(anyDepth(q.Glob))
	}
	g.walker = walker{t: t, ctx: ctx, deadline: time.Now().Add(grepTime), ignore: !q.IncludeIgnored, visit: g.visit}
	var err error
	g.m, err = newMatcher(q.Pattern, q.IgnoreCase, q.Multiline, g.walker.over)
	return g, err
}

func (g *grepping) visit(s step) (bool, error) {
	if s.mode.IsDir() {
		return true, nil
	}
	if !s.mode.IsRegular() {
		g.res.Skipped++
		return false, nil
	}
	if g.glob != "" {
		rel := strings.TrimPrefix(strings.TrimPrefix(s.rel, g.base), "/")
		if !doublestar.MatchUnvalidated(g.glob, norm.NFC.String(rel)) {
			return false, nil
		}
	}
	if err := g.walker.over(); err != nil {
		return false, err
	}
	p, err := s.parent.child(s.name)
	if err != nil {
		g.res.Skipped++
		return false, nil
	}
	defer p.close()
	// The name may lead to another object than the one the directory told of.
	if !p.regular() || g.walker.t.denied.Load().has(p.id) {
		g.walker.omitted++
		return false, nil
	}
	return false, g.file(p, s.rel)
}

// file searches one file. errStop ends the search.
func (g *grepping) file(p *pin, rel string) error {
	text, ok := g.load(p)
	if !ok {
		g.res.Skipped++
		return nil
	}
	g.res.Searched++
	if r := g.walker.t.redactor(); r != nil {
		// The search is in what may be seen, so that a guess of a secret is
		// never confirmed, not even by a count (case 43).
		text, _ = r.Redact(text)
	}
	if bytes.Contains(text, []byte("\r\n")) {
		text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	}
	path := g.q.Path.Root() + "/" + rel
	switch g.q.Mode {
	case "files", "count":
		return g.summary(path, text)
	}
	return g.content(path, text)
}

// load reads a text file of at most grepFileSize bytes.
func (g *grepping) load(p *pin) ([]byte, bool) {
	if p.size > grepFileSize {
		return nil, false
	}
	f, err := p.open()
	if err != nil {
		return nil, false
	}
	defer f.close()
	if int64(cap(g.buf)) < p.size {
		g.buf = make([]byte, max(p.size, 64<<10))
	}
	n, err := f.ReadAt(g.buf[:p.size], 0)
	b := g.buf[:n]
	if err != nil && !isEOF(err) {
		return nil, false
	}
	return b, bytes.IndexByte(b[:min(n, sniffLen)], 0) < 0
}

// summary is modes files and count: one line a file.
func (g *grepping) summary(path string, text []byte) error {
	n := 0
	err := g.m.each(text, func(from, to int) bool {
		n++
		return g.q.Mode == "count"
	})
	if n > 0 {
		if g.res.Files == g.q.Limit {
			g.more = true
			return errStop
		}
		line := path + "\n"
		if g.q.Mode == "count" {
			line = fmt.Sprintf("%s:%d\n", path, n)
		}
		if !g.add(line) {
			return errStop
		}
		g.res.Files++
		g.res.Hits += n
	}
	return err
}

// content prints hits and what is around them.
func (g *grepping) content(path string, text []byte) error {
	c := printer{g: g, path: path, text: text, line: 1}
	first, full := g.res.Hits, false
	err := g.m.each(text, func(from, to int) bool {
		if g.res.Hits == g.q.Limit || !c.hit(from, to) {
			g.more, full = true, true
			return false
		}
		g.res.Hits++
		return true
	})
	c.after()
	if g.res.Hits > first {
		g.res.Files++
	}
	if full {
		return errStop
	}
	return err
}

// add appends to the body, within the budget.
func (g *grepping) add(line string) bool {
	if g.body.Len()+len(line) > g.max {
		g.more = true
		return false
	}
	g.body.WriteString(line)
	return true
}

func (g *grepping) result() GrepResult {
	r, w := &g.res, &g.walker
	r.Kind, r.Body = Text, g.body.Bytes()
	r.Omitted, r.Ignored, r.Truncated = w.omitted, w.ignored, g.more || w.partial
	r.Redacted = len(placeholder.FindAll(r.Body, -1))
	next := "truncated=no"
	switch {
	case w.partial:
		next = truncated("out of time; narrow path, glob or pattern")
	case g.more:
		next = truncated("narrow path, glob or pattern")
	}
	r.Header = fmt.Sprintf("%s hits=%d files=%d searched=%d skipped=%d omitted=%d ignored=%d %s",
		g.q.Path, r.Hits, r.Files, r.Searched, r.Skipped, r.Omitted, r.Ignored, next)
	return *r
}

// printer writes the hits of one file in the order of lines.
type printer struct {
	g    *grepping
	path string
	text []byte

	line    int // number of the line that starts at pos
	pos     int
	printed int // last line printed, 0 for none
	pending int // lines of context still to print
}

// hit prints the lines of text[from:to], whose first line starts at from.
func (c *printer) hit(from, to int) bool {
	first := c.line + bytes.Count(c.text[c.pos:from], []byte{'\n'})
	// The context after the hit before, then that before this one.
	for c.pending > 0 && c.line < first {
		if !c.print('-') {
			return false
		}
		c.pending--
	}
	before := max(c.line, first-c.g.q.Context)
	for c.line < before {
		c.next()
	}
	if c.g.q.Context > 0 && c.g.body.Len() > 0 && c.printed != c.line-1 && !c.g.add("--\n") {
		return false
	}
	for c.line < first {
		if !c.print('-') {
			return false
		}
	}
	for c.pos < to || c.line == first {
		if !c.print(':') {
			return false
		}
		if c.pos >= len(c.text) {
			break
		}
	}
	c.pending = c.g.q.Context
	return true
}

func (c *printer) after() {
	for c.pending > 0 && c.pos < len(c.text) && c.print('-') {
		c.pending--
	}
}

func (c *printer) next() []byte {
	rest := c.text[c.pos:]
	line := rest
	if i := bytes.IndexByte(rest, '\n'); i >= 0 {
		line = rest[:i]
		c.pos++
	}
	c.pos += len(line)
	c.line++
	return line
}

func (c *printer) print(sep byte) bool {
	n := c.line
	line := c.next()
	c.printed = n
	return c.g.add(fmt.Sprintf("%s%c%d%c%s\n", c.path, sep, n, sep, shown(line)))
}

// shown makes a line fit to be shown: UTF-8, and of bounded length.
func shown(line []byte) string {
	cut := ""
	if len(line) > maxLineChars {
		n := wholeRunes(line, maxLineChars)
		cut = fmt.Sprintf("[line cut after %d of %d bytes]", n, len(line))
		line = line[:n]
	}
	return escapeInvalid(line) + cut
}

// escapeInvalid writes bytes that are not UTF-8 as \xNN.
func escapeInvalid(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var s strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&s, `\x%02x`, b[0])
		} else {
			s.Write(b[:n])
		}
		b = b[n:]
	}
	return s.String()
}
