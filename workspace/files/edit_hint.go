package files

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/weftmesh/weft/workspace"
)

// Limits of the search for a line to point at.
const (
	hintLines = 50_000
	hintChars = 200
)

// noMatch says what was found instead, in redacted text only.
func (e *editing) noMatch(i int, te TextEdit, found []span, want int) error {
	if len(found) > 0 {
		var lines []string
		for _, at := range found[:min(len(found), 10)] {
			lines = append(lines, strconv.Itoa(1+bytes.Count(e.text[:at.from], []byte{'\n'})))
		}
		if len(found) == want {
			return workspace.Fail("no_match", "edit %d: the %d occurrences of old in %s overlap; nothing was written. Add text around them, or set all", i+1, want, e.path)
		}
		return workspace.Fail("no_match", "edit %d: old occurs %d times in %s (lines %s), not %d; nothing was written. Add text around it, or set count or all",
			i+1, len(found), e.path, strings.Join(lines, ", "), want)
	}
	if placeholder.MatchString(te.Old) {
		return workspace.Fail("no_match", "edit %d: old has a [REDACTED] placeholder, which is not in the file; nothing was written. Choose text without the secret", i+1)
	}
	if strings.Contains(te.Old, "\r\n") && !bytes.Contains(e.text, []byte("\r\n")) {
		return workspace.Fail("no_match", "edit %d: old has CRLF line ends, %s has LF; nothing was written", i+1, e.path)
	}
	n, line := e.nearest(te.Old)
	if n == 0 {
		return workspace.Fail("no_match", "edit %d: old does not occur in %s and no line is like it; nothing was written. Read the file again", i+1, e.path)
	}
	return workspace.Fail("no_match", "edit %d: old does not occur in %s; nothing was written. The nearest is line %d: %s (a tab is \\t, a space at an end or in a row is ·)", i+1, e.path, n, visible(line))
}

// nearest is the line most like the first line of old that has a word.
func (e *editing) nearest(old string) (n int, best []byte) {
	first := ""
	for l := range strings.Lines(old) {
		if first = strings.TrimSpace(l); first != "" {
			break
		}
	}
	if first == "" {
		return 0, nil
	}
	want := strings.Join(strings.Fields(first), " ")
	score, i := len(want)/3, 0
	for line := range bytes.Lines(newView(e.redact, e.text).out) {
		if i++; i > hintLines {
			break
		}
		if len(line) > 4*hintChars {
			line = line[:4*hintChars]
		}
		if s := likeness(want, string(line)); s > score {
			score, n, best = s, i, line
		}
	}
	return n, best
}

// likeness counts the bytes that two lines have in common at their ends, apart
// from white space; all the more for equal ones.
func likeness(want, line string) int {
	got := strings.Join(strings.Fields(line), " ")
	if got == want {
		return 2 * len(want)
	}
	if strings.Contains(got, want) {
		return len(want) + 1
	}
	head, tail := 0, 0
	for head < len(got) && head < len(want) && got[head] == want[head] {
		head++
	}
	for tail < len(got)-head && tail < len(want)-head && got[len(got)-1-tail] == want[len(want)-1-tail] {
		tail++
	}
	return head + tail
}

// visible shows the white space of a line that matters.
func visible(line []byte) string {
	s := escapeInvalid(bytes.TrimRight(line, "\n"))
	end := len(strings.TrimRight(s, " \t\r"))
	start := len(s) - len(strings.TrimLeft(s, " \t"))
	var b strings.Builder
	for i, r := range s {
		switch {
		case b.Len() > hintChars:
			return b.String() + "..."
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == ' ' && (i < start || i >= end || s[i-1] == ' '):
			b.WriteString("·")
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
