package command

import (
	"errors"
	"fmt"
	"strings"
)

// shellOnly are the characters that mean something to a shell beyond words.
// An exact argv that holds one outside quotes was meant as a shell string.
const shellOnly = "|&;<>()$`*?[]{}!#~\n\r"

// split cuts s into words at blanks, with '...', "..." and \ as in a shell but
// no expansion of any kind. quoted reports whether a quote was used.
func split(s string) (words []string, quoted bool, err error) {
	if len(s) > maxArgBytes {
		return nil, false, fmt.Errorf("longer than %d bytes", maxArgBytes)
	}
	var word strings.Builder
	in, open := byte(0), false // the quote we are in; whether a word has begun
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case in == '\'' && c != '\'', in == '"' && c != '"' && c != '\\':
			if in == '"' && (c == '$' || c == '`') {
				return nil, false, fmt.Errorf("%q inside double quotes would be expanded by a shell; here nothing is, use single quotes", c)
			}
			word.WriteByte(c)
		case in != 0 && c == in:
			in = 0
		case c == '\\':
			if i++; i == len(s) {
				return nil, false, errors.New("ends in a backslash")
			}
			word.WriteByte(s[i])
			open = true
		case c == '\'' || c == '"':
			in, open, quoted = c, true, true
		case c == ' ' || c == '\t':
			if open {
				words = append(words, word.String())
				word.Reset()
				open = false
			}
		case strings.IndexByte(shellOnly, c) >= 0:
			return nil, false, fmt.Errorf("%q is shell syntax; a granted command is one program with fixed words (quote the character to mean itself)", c)
		default:
			word.WriteByte(c)
			open = true
		}
	}
	if in != 0 {
		return nil, false, errors.New("a quote is not closed")
	}
	if open {
		words = append(words, word.String())
	}
	return words, quoted, nil
}

// quote writes a word so that split reads it back.
func quote(w string) string {
	if w != "" && !strings.ContainsAny(w, shellOnly+" \t'\"\\") {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}
