package files

import (
	"bytes"
	"io"
	"regexp"
	"regexp/syntax"
	"unicode/utf8"
)

// maxProgram bounds a compiled pattern: counted repetitions multiply, and the
// time of a search is the product of program and text.
const maxProgram = 4000

const (
	// grepChunk is how much text is searched at once, between looks at the clock.
	grepChunk = 64 << 10
	// cheap is the product of program and text that takes a tenth of a second;
	// above it the clock is looked at during the search.
	cheap = 20_000_000
)

// matcher finds the lines that a pattern matches, in linear time and never for
// longer than stop allows: a search of package regexp can't be interrupted,
// except by the reader it reads from.
type matcher struct {
	re        *regexp.Regexp
	size      int
	multiline bool
	// anchored patterns say \A or \z, so each line must be a text of its own.
	anchored bool
	stop     func() error
}

func newMatcher(pattern string, ignoreCase, multiline bool, stop func() error) (*matcher, error) {
	if pattern == "" || len(pattern) > maxPattern {
		return nil, badArgs("pattern has 1 to %d bytes", maxPattern)
	}
	flags := "(?m)"
	if ignoreCase {
		flags = "(?im)"
	}
	tree, err := syntax.Parse(flags+pattern, syntax.Perl)
	if err != nil {
		return nil, badArgs("pattern is no regular expression of RE2: %s; look-around and back references don't exist", err)
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil || len(prog.Inst) > maxProgram {
		return nil, badArgs("pattern is too big when its repetitions are written out; use smaller counts")
	}
	re, err := regexp.Compile(flags + pattern)
	if err != nil {
		return nil, badArgs("pattern is no regular expression of RE2: %s", err)
	}
	return &matcher{re: re, size: len(prog.Inst), multiline: multiline, anchored: anchors(tree), stop: stop}, nil
}

func anchors(re *syntax.Regexp) bool {
	if re.Op == syntax.OpBeginText || re.Op == syntax.OpEndText {
		return true
	}
	for _, sub := range re.Sub {
		if anchors(sub) {
			return true
		}
	}
	return false
}

// each calls fn with the start and end of each line that matches (multiline: of
// the lines of each match), until it returns false.
func (m *matcher) each(text []byte, fn func(from, to int) bool) error {
	for pos := 0; pos < len(text); {
		if err := m.stop(); err != nil {
			return err
		}
		end := len(text)
		if !m.multiline {
			end = m.chunkEnd(text, pos)
		}
		loc, err := m.find(text[pos:end])
		if err != nil {
			return err
		}
		if loc == nil {
			if pos = end; m.anchored && !m.multiline {
				pos++ // the newline, which a line of its own is without
			}
			continue
		}
		from := bytes.LastIndexByte(text[:pos+loc[0]], '\n') + 1
		if from < pos {
			from = pos
		}
		if from == len(text) && len(text) > 0 && text[len(text)-1] == '\n' {
			return nil // an empty match after the last line
		}
		last := pos + loc[0]
		if m.multiline {
			last = max(last, pos+loc[1]-1)
		}
		to := lineEnd(text, last)
		if !m.multiline && pos+loc[1] > to {
			// The match goes on in the next line: does this line match alone?
			if loc, err = m.find(text[from:to]); err != nil {
				return err
			}
		}
		if loc != nil && !fn(from, to) {
			return nil
		}
		pos = to + 1
	}
	return nil
}

// lineEnd is the end, without the newline, of the line at i.
func lineEnd(text []byte, i int) int {
	if j := bytes.IndexByte(text[i:], '\n'); j >= 0 {
		return i + j
	}
	return len(text)
}

// chunkEnd is the end of the last whole line within a chunk, or of one line.
func (m *matcher) chunkEnd(text []byte, pos int) int {
	if m.anchored {
		return lineEnd(text, pos)
	}
	if len(text)-pos <= grepChunk {
		return len(text)
	}
	if i := bytes.LastIndexByte(text[pos:pos+grepChunk], '\n'); i >= 0 {
		return pos + i + 1
	}
	return min(len(text), lineEnd(text, pos+grepChunk)+1)
}

func (m *matcher) find(text []byte) ([]int, error) {
	if m.size*len(text) <= cheap {
		return m.re.FindIndex(text), nil
	}
	r := &stoppable{text: text, stop: m.stop}
	loc := m.re.FindReaderIndex(r)
	return loc, r.err
}

// stoppable is text that ends when the time is up.
type stoppable struct {
	text []byte
	pos  int
	n    int
	stop func() error
	err  error
}

// ReadRune implements io.RuneReader.
func (s *stoppable) ReadRune() (rune, int, error) {
	if s.n++; s.n%1024 == 0 && s.err == nil {
		s.err = s.stop()
	}
	if s.pos == len(s.text) || s.err != nil {
		return 0, 0, io.EOF
	}
	r, size := utf8.DecodeRune(s.text[s.pos:])
	s.pos += size
	return r, size, nil
}
