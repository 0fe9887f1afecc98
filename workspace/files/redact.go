package files

import (
	"bytes"
	"regexp"
	"sort"
)

// placeholder is what a Redactor puts in the place of a secret.
var placeholder = regexp.MustCompile(`\[REDACTED(?::[^\[\]\r\n]{0,128})?\]`)

// view is a piece of a file beside its redacted form, with the places where
// they differ, so that a range of the file can be cut out of the redacted form.
type view struct {
	raw, out []byte
	n        int
	marks    []mark
}

// mark is a secret in raw and its placeholder in out.
type mark struct{ raw, rawEnd, out, outEnd int }

func newView(r Redactor, raw []byte) *view {
	v := &view{raw: raw, out: raw}
	if r == nil {
		return v
	}
	if v.out, v.n = r.Redact(raw); v.n > 0 {
		v.align()
	}
	return v
}

// align finds the marks: out is raw with placeholders in the place of secrets,
// so what lies between two placeholders is found in raw again, in order. Where
// that is ambiguous a mark may be off, but all that is ever cut is out.
func (v *view) align() {
	raw, out := 0, 0 // aligned so far
	locs := placeholder.FindAllIndex(v.out, -1)
	for i, loc := range locs {
		between := v.out[out:loc[0]]
		if !bytes.HasPrefix(v.raw[raw:], between) {
			break
		}
		raw += len(between)
		text := v.out[loc[0]:loc[1]]
		end := len(v.out)
		if i+1 < len(locs) {
			end = locs[i+1][0]
		}
		next := v.out[loc[1]:end]
		if bytes.HasPrefix(v.raw[raw:], text) { // the file itself has this text
			raw, out = raw+len(text), loc[1]
			continue
		}
		rawEnd := len(v.raw) - len(next)
		if i+1 < len(locs) {
			j := -1
			if raw < len(v.raw) {
				j = bytes.Index(v.raw[raw+1:], next)
			}
			rawEnd = raw + 1 + j
			if j < 0 {
				break
			}
		}
		if rawEnd <= raw {
			break
		}
		v.marks = append(v.marks, mark{raw, rawEnd, loc[0], loc[1]})
		raw, out = rawEnd, loc[1]
	}
	if !bytes.Equal(v.raw[raw:], v.out[out:]) {
		v.marks = []mark{v.differing()}
	}
}

// differing is one mark around all that differs.
func (v *view) differing() mark {
	i, j := 0, 0
	for i < len(v.raw) && i < len(v.out) && v.raw[i] == v.out[i] {
		i++
	}
	for j < len(v.raw)-i && j < len(v.out)-i && v.raw[len(v.raw)-1-j] == v.out[len(v.out)-1-j] {
		j++
	}
	return mark{i, len(v.raw) - j, i, len(v.out) - j}
}

// at is the place in out of a place in raw. Within a secret it is after the
// placeholder: that belongs to the range in which the secret starts.
func (v *view) at(raw int) int {
	i := sort.Search(len(v.marks), func(i int) bool { return v.marks[i].raw >= raw })
	if i == 0 {
		return raw
	}
	m := v.marks[i-1]
	if raw < m.rawEnd {
		return m.outEnd
	}
	return m.outEnd + raw - m.rawEnd
}

// cut is the redacted form of raw[from:to], and the number of secrets in it.
func (v *view) cut(from, to int) ([]byte, int) {
	n := 0
	for _, m := range v.marks {
		if m.raw < to && m.rawEnd > from {
			n++
		}
	}
	return v.out[v.at(from):v.at(to)], n
}

// addsPlaceholder reports whether after has more of what may not be written than before:
// placeholders, which would take the place of the secret for good.
func addsPlaceholder(before, after []byte) bool {
	n := len(placeholder.FindAll(after, -1))
	return n > 0 && n > len(placeholder.FindAll(before, -1))
}
