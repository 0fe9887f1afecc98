package redact

// The bytes that the view leaves out: white space and control bytes.
var blank = func() (t [256]bool) {
	for c := range 0x21 {
		t[c] = true
	}
	t[0x7f] = true
	return t
}()

// strip returns p without blank bytes.
func strip(p []byte) []byte {
	out := make([]byte, 0, len(p))
	for _, c := range p {
		if !blank[c] {
			out = append(out, c)
		}
	}
	return out
}

// escape follows terminal escape sequences (ECMA-48) byte by byte, so that
// they can be left out of the view wherever a chunk ends.
type escape uint8

const (
	text    escape = iota
	started        // after ESC
	control        // inside CSI: ESC [ ... final byte
	command        // inside OSC: ESC ] ... BEL or ESC \
)

// skip advances over c and reports whether c belongs to a sequence.
func (e *escape) skip(c byte) bool {
	switch *e {
	case started:
		switch c {
		case '[':
			*e = control
		case ']':
			*e = command
		case 0x1b:
		default:
			*e = text
			// Two-byte sequences end at 0x20..0x7e; anything else is no
			// sequence and belongs to the text.
			return c >= 0x20 && c < 0x7f
		}
		return true
	case control:
		switch {
		case c == 0x1b:
			*e = started
		case c >= 0x40 && c < 0x7f:
			*e = text
		case c < 0x20 || c >= 0x7f:
			*e = text
			return false
		}
		return true
	case command:
		switch c {
		case 0x07:
			*e = text
		case 0x1b:
			*e = started
		case '\n':
			*e = text
			return false
		}
		return true
	}
	if c == 0x1b {
		*e = started
		return true
	}
	return false
}
