package files

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/weftmesh/weft/workspace"
)

// Read returns a part of a file: lines by default, a byte range if Offset or
// Length is set, or a whole image. See ReadRequest for the limits.
func (t *Tree) Read(ctx context.Context, q ReadRequest) (ReadResult, error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return ReadResult{}, explain(err, q.Path.String())
	}
	defer leave()
	rd, err := t.startRead(ctx, q)
	if err != nil {
		return ReadResult{}, explain(err, q.Path.String())
	}
	defer rd.o.close()
	defer rd.f.close()
	if err := rd.run(); err != nil {
		return ReadResult{}, explain(err, q.Path.String())
	}
	return rd.res, nil
}

// reading is one read in progress.
type reading struct {
	t     *Tree
	ctx   context.Context
	q     ReadRequest
	o     *object
	f     *file
	facts *facts // nil for a huge file
	head  []byte // the first sniffLen bytes
	res   ReadResult
}

func (t *Tree) startRead(ctx context.Context, q ReadRequest) (*reading, error) {
	if err := q.normalise(); err != nil {
		return nil, err
	}
	o, err := t.resolveFile(q.Path)
	if err != nil {
		return nil, err
	}
	f, err := o.open()
	if err != nil {
		o.close()
		return nil, err
	}
	rd := &reading{t: t, ctx: ctx, q: q, o: o, f: f}
	if rd.facts, err = t.survey(ctx, o.pin, f); err != nil {
		f.close()
		o.close()
		return nil, err
	}
	return rd, nil
}

func (q *ReadRequest) byRange() bool { return q.Offset != 0 || q.Length != 0 }

func (q *ReadRequest) normalise() error {
	if q.byRange() && (q.StartLine != 0 || q.MaxLines != 0) {
		return badArgs("start_line and max_lines, or offset and length, not both")
	}
	if q.StartLine < 0 || q.MaxLines < 0 || q.Offset < 0 || q.Length < 0 || q.MaxBytes < 0 {
		return badArgs("start_line, max_lines, offset and length can't be negative")
	}
	if q.MaxLines > defaultLines {
		return badArgs("max_lines is %d at most", defaultLines)
	}
	if q.Length > maxRange {
		return workspace.Refuse(workspace.TooLarge, "length is %d at most; read in several ranges", maxRange)
	}
	switch q.Encoding {
	case "":
		q.Encoding = "auto"
	case "auto", "base64":
	default:
		return badArgs("encoding is auto or base64")
	}
	q.StartLine = max(q.StartLine, 1)
	if q.MaxLines == 0 {
		q.MaxLines = defaultLines
	}
	q.MaxBytes = budget(q.MaxBytes)
	return nil
}

// budget is the text budget for a wish.
func budget(wish int) int {
	if wish == 0 {
		return defaultBudget
	}
	return min(max(wish, minBudget), maxBudget)
}

func (rd *reading) run() error {
	r := &rd.res
	r.Size = rd.o.size
	if rd.facts != nil {
		r.SHA256 = rd.facts.sha256
	}
	rd.head = make([]byte, min(rd.o.size, sniffLen))
	n, _ := rd.f.ReadAt(rd.head, 0)
	rd.head = rd.head[:n]
	r.BOM = bytes.HasPrefix(rd.head, []byte("\xef\xbb\xbf"))
	binary := bytes.IndexByte(rd.head, 0) >= 0
	switch {
	case rd.q.Encoding == "base64":
		return rd.bytes(true)
	case !rd.q.byRange() && imageType(rd.head) != "":
		return rd.image(imageType(rd.head))
	case binary:
		return rd.notText("it has NUL bytes" + utf16Hint(rd.head))
	case rd.q.byRange():
		return rd.bytes(false)
	}
	return rd.lines()
}

func (rd *reading) notText(why string) error {
	return workspace.Fail("binary", "%s is not UTF-8 text: %s; size=%d; read it with encoding=base64", rd.q.Path, why, rd.o.size)
}

func utf16Hint(head []byte) string {
	if bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) {
		return " (UTF-16)"
	}
	return ""
}

// imageType recognises the four formats that models see, by content.
func imageType(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte("\x89PNG\r\n\x1a\n")):
		return "image/png"
	case bytes.HasPrefix(head, []byte("\xff\xd8\xff")):
		return "image/jpeg"
	case bytes.HasPrefix(head, []byte("GIF87a")), bytes.HasPrefix(head, []byte("GIF89a")):
		return "image/gif"
	case len(head) >= 12 && string(head[:4]) == "RIFF" && string(head[8:12]) == "WEBP":
		return "image/webp"
	}
	return ""
}

func (rd *reading) image(mime string) error {
	if rd.o.size > maxImage {
		return workspace.Refuse(workspace.TooLarge, "%s is an image of %d bytes, the limit is %d; read ranges with encoding=base64", rd.q.Path, rd.o.size, maxImage)
	}
	b, err := rd.raw(0, rd.o.size)
	if err != nil {
		return err
	}
	v := newView(rd.t.redactor(), b)
	r := &rd.res
	r.Kind, r.MIME, r.Body, r.Redacted, r.Length = Image, mime, v.out, v.n, int64(len(b))
	rd.header("type="+mime, "truncated=no")
	return nil
}

// raw reads a range, less if the file ends before.
func (rd *reading) raw(from, to int64) ([]byte, error) {
	if to <= int64(len(rd.head)) && from <= to {
		return rd.head[from:to], nil
	}
	b := make([]byte, max(0, to-from))
	n, err := rd.f.ReadAt(b, from)
	if err != nil && n < len(b) && from+int64(n) < rd.o.size && !isEOF(err) {
		return nil, err
	}
	return b[:n], nil
}

// header writes the first line of the result.
func (rd *reading) header(fields ...string) {
	var h strings.Builder
	sum := rd.res.SHA256
	if sum == "" {
		sum = "-"
	}
	fmt.Fprintf(&h, "%s size=%d sha256=%s", rd.q.Path, rd.res.Size, sum)
	for _, f := range fields {
		if f != "" {
			h.WriteByte(' ')
			h.WriteString(f)
		}
	}
	if rd.res.Redacted > 0 {
		fmt.Fprintf(&h, " redacted=%d", rd.res.Redacted)
	}
	rd.res.Header = h.String()
}

// truncated is the last field of a header.
func truncated(next string) string {
	if next == "" {
		return "truncated=no"
	}
	return "truncated=yes next: " + next
}

// window reads the file around a range, so that a secret which starts or ends
// outside is seen whole: 4 KiB more, then on to the ends of the lines.
func (rd *reading) window(from, to int64) (b []byte, start int64, err error) {
	if rd.t.redactor() == nil {
		b, err = rd.raw(from, to)
		return b, from, err
	}
	lo := max(0, from-redactMargin-lineMargin)
	hi := min(rd.o.size, to+redactMargin+lineMargin)
	if b, err = rd.raw(lo, hi); err != nil {
		return nil, 0, err
	}
	if lo > 0 {
		cut := max(0, min(len(b), int(from-redactMargin-lo)))
		cut = bytes.LastIndexByte(b[:cut], '\n') + 1
		b, lo = b[cut:], lo+int64(cut)
	}
	if end := int(to + redactMargin - lo); end < len(b) {
		if i := bytes.IndexByte(b[end:], '\n'); i >= 0 {
			b = b[:end+i+1]
		}
	}
	return b, lo, nil
}

// backToRune moves a place that is inside a character to its start.
func backToRune(b []byte, i int) int {
	for j := i; j >= 0 && j > i-utf8.UTFMax; j-- {
		if j < len(b) && utf8.RuneStart(b[j]) {
			return j
		}
	}
	return i
}

// wholeRunes moves the end of text back if it is inside a character.
func wholeRunes(b []byte, end int) int {
	for j := end - 1; j >= 0 && j > end-utf8.UTFMax; j-- {
		if utf8.RuneStart(b[j]) {
			if !utf8.FullRune(b[j:end]) {
				return j
			}
			return end
		}
	}
	return end
}
