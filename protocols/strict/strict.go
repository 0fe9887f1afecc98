// Package strict decodes untrusted JSON so that two readers can't disagree
// about what was said.
//
// It refuses what encoding/json lets through: unknown members, duplicate
// names, case variants of a name, invalid UTF-8, lone surrogates, NUL in
// strings, integers beyond 2^53 and data after the value. The size limit is
// checked before anything is parsed. Everything that crosses a trust boundary
// in weft is read with this package.
package strict

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ErrInput is wrapped by every error of this package: the bytes are at fault,
// not the machine.
var ErrInput = errors.New("bad input")

// maxDepth bounds nesting: no document of ours nests deeper than eight.
const maxDepth = 32

// maxSafeInteger is 2^53-1, the largest integer that every JSON reader keeps
// exact (RFC 8259 section 6, RFC 7493 section 2.2).
const maxSafeInteger = 1<<53 - 1

// Unmarshal decodes one JSON value of at most max bytes into v.
func Unmarshal(data []byte, max int, v any) error {
	if len(data) > max {
		return fmt.Errorf("%w: %d bytes, the limit is %d", ErrInput, len(data), max)
	}
	if err := check(data); err != nil {
		return err
	}
	if err := json.Unmarshal(data, v, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("%w: %s", ErrInput, tidy(err))
	}
	return nil
}

// Marshal encodes v compactly and deterministically: struct members in order
// of declaration, map members sorted.
func Marshal(v any) ([]byte, error) {
	return json.Marshal(v, json.Deterministic(true))
}

// check walks the tokens once, for the rules that the decoder doesn't have.
func check(data []byte) error {
	dec := jsontext.NewDecoder(bytes.NewReader(data))
	for {
		tok, err := dec.ReadToken()
		if err != nil {
			if dec.StackDepth() == 0 && dec.InputOffset() > 0 && len(bytes.TrimSpace(data[dec.InputOffset():])) == 0 {
				return nil
			}
			return fmt.Errorf("%w: %s", ErrInput, tidy(err))
		}
		if dec.StackDepth() > maxDepth {
			return fmt.Errorf("%w: nested deeper than %d", ErrInput, maxDepth)
		}
		switch tok.Kind() {
		case '"':
			if strings.IndexByte(tok.String(), 0) >= 0 {
				return fmt.Errorf("%w: NUL in a string", ErrInput)
			}
		case '0':
			if f, err := tok.Float(); err != nil || f > maxSafeInteger || f < -maxSafeInteger {
				return fmt.Errorf("%w: number beyond 2^53", ErrInput)
			}
		}
		if dec.StackDepth() == 0 {
			if len(bytes.TrimSpace(data[dec.InputOffset():])) != 0 {
				return fmt.Errorf("%w: data after the value", ErrInput)
			}
			return nil
		}
	}
}

// maxError bounds how much of an error, which may quote input, reaches people.
const maxError = 200

// tidy takes the library's prefix off and cuts long names, since the text
// reaches people.
func tidy(err error) string {
	s := err.Error()
	for _, p := range []string{"jsontext: ", "json: "} {
		s = strings.TrimPrefix(s, p)
	}
	if len(s) > maxError {
		s = strings.ToValidUTF8(s[:maxError], "") + "..."
	}
	return s
}
