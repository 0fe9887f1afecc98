package files

import (
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/weftmesh/weft/workspace"
)

func isEOF(err error) bool { return errors.Is(err, io.EOF) }

// bytes answers a range read, and any read with encoding base64. Text starts
// and ends between characters: a start inside one moves back, an end too.
func (rd *reading) bytes(binary bool) error {
	q, r := &rd.q, &rd.res
	if q.Length == 0 {
		q.Length = defaultBudget
	}
	size := rd.o.size
	if q.Offset > size || q.Offset == size && size > 0 {
		return workspace.Fail("not_found", "offset %d is past the end of %s: size=%d", q.Offset, q.Path, size)
	}
	from, to := q.Offset, min(q.Offset+q.Length, size)
	end := to
	if !binary { // room to move either end to the edge of a character
		from, to = max(0, from-utf8.UTFMax+1), min(to+utf8.UTFMax-1, size)
	}
	b, start, err := rd.window(from, to)
	if err != nil {
		return err
	}
	v := newView(rd.t.redactor(), b)
	i, j := min(int(q.Offset-start), len(b)), min(int(end-start), len(b))
	if !binary {
		i = backToRune(b, i)
		if k := wholeRunes(b, j); k > i {
			j = k
		} else if _, n := utf8.DecodeRune(b[i:]); i < len(b) {
			j = i + n // the range is shorter than its first character
		}
	}
	r.Body, r.Redacted = v.cut(i, j)
	r.Offset, r.Length = start+int64(i), int64(j-i)
	field := fmt.Sprintf("offset=%d length=%d", r.Offset, r.Length)
	if end := r.Offset + r.Length; end < size {
		r.Truncated, r.Next = true, fmt.Sprintf("offset=%d", end)
	}
	if binary {
		r.Kind, r.MIME = Binary, "application/octet-stream"
		if t := imageType(rd.head); t != "" {
			r.MIME = t
		}
		rd.header(field, "encoding=base64", truncated(r.Next))
		return nil
	}
	if !utf8.Valid(r.Body) {
		return rd.notText("this range has bytes that are not UTF-8")
	}
	r.Kind, r.EOL = Text, rd.eol(b)
	rd.header(field, "eol="+r.EOL, bomField(r.BOM), "encoding=utf-8", truncated(r.Next))
	return nil
}

// eol is the file's line ending; for a huge file that of the bytes at hand.
func (rd *reading) eol(b []byte) string {
	f := rd.facts
	if f == nil {
		f = &facts{}
		f.count(b, 0, '\n')
	}
	return f.eol()
}

func bomField(bom bool) string {
	if bom {
		return "bom=yes"
	}
	return ""
}
