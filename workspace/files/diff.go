package files

import (
	"bytes"
	"fmt"

	"github.com/aymanbagabas/go-udiff"
)

// unified is the diff of two texts, with the common lines around the change cut
// off first: the diff's time grows with the product of what differs. Beyond a
// hundred differences it is coarse: still right, but not the shortest.
func unified(path string, before, after []byte) []byte {
	const context = 3
	head := commonHead(before, after, context)
	tail := commonTail(before[head:], after[head:], context)
	a, b := before[head:len(before)-tail], after[head:len(after)-tail]
	d, err := udiff.ToUnifiedDiff("a/"+path, "b/"+path, string(a), udiff.Lines(string(a), string(b)), context)
	if err != nil {
		return nil // only for edits out of range, which Lines doesn't make
	}
	skipped := bytes.Count(before[:head], []byte{'\n'})
	for _, h := range d.Hunks {
		h.FromLine += skipped
		h.ToLine += skipped
	}
	return []byte(d.String())
}

// commonHead is the length of the whole lines that both texts start with,
// without the last keep of them.
func commonHead(a, b []byte, keep int) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	n = bytes.LastIndexByte(a[:n], '\n') + 1
	for ; n > 0 && keep > 0; keep-- {
		n = bytes.LastIndexByte(a[:n-1], '\n') + 1
	}
	return n
}

// commonTail is the length of the whole lines that both texts end with, without
// the first keep of them.
func commonTail(a, b []byte, keep int) int {
	n := 0
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	rest := a[len(a)-n:]
	for i := 0; i <= keep; i++ { // the first line may be a part of one
		j := bytes.IndexByte(rest, '\n')
		if j < 0 {
			return 0
		}
		rest = rest[j+1:]
	}
	return len(rest)
}

// countChanges counts added and removed lines; -1 and -1 if either side has NUL
// bytes or is too big to compare.
func countChanges(before, after []byte) (added, removed int) {
	if len(before) > maxEdit || bytes.IndexByte(before, 0) >= 0 || bytes.IndexByte(after, 0) >= 0 {
		return -1, -1
	}
	return diffStat(unified("", before, after))
}

func diffStat(diff []byte) (added, removed int) {
	for i, line := range bytes.Split(diff, []byte{'\n'}) {
		switch {
		case i < 2 || len(line) == 0: // the two file names
		case line[0] == '+':
			added++
		case line[0] == '-':
			removed++
		}
	}
	return added, removed
}

// cutDiff keeps a diff within the budget, at a line end.
func cutDiff(diff []byte) ([]byte, bool) {
	if len(diff) <= defaultBudget {
		return diff, false
	}
	n := bytes.LastIndexByte(diff[:defaultBudget], '\n') + 1
	if n == 0 {
		n = wholeRunes(diff, defaultBudget)
	}
	return fmt.Appendf(diff[:n:n], "[diff cut after %d of %d bytes; read_file shows the file]\n", n, len(diff)), true
}
