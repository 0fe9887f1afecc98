package workspace

import (
	"fmt"
	"strings"
)

// Right is what may be done in a root: a set of the bits below.
type Right uint8

// The rights. Every root has Read; the others are asked for one by one.
const (
	Read Right = 1 << iota
	Write
	Delete
	Exec
)

var rightNames = [...]struct {
	right Right
	name  string
}{{Read, "read"}, {Write, "write"}, {Delete, "delete"}, {Exec, "exec"}}

// Has reports whether r includes every right of want.
func (r Right) Has(want Right) bool { return r&want == want }

// String lists the rights, as in "read,write".
func (r Right) String() string {
	var names []string
	for _, n := range rightNames {
		if r.Has(n.right) {
			names = append(names, n.name)
		}
	}
	return strings.Join(names, ",")
}

// MarshalText writes the list of String.
func (r Right) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads the list of String, in that order and nothing else. What
// it refuses leaves no rights.
func (r *Right) UnmarshalText(text []byte) error {
	*r = 0
	var read Right
	if len(text) <= maxRights {
		for name := range strings.SplitSeq(string(text), ",") {
			for _, n := range rightNames {
				if n.name == name {
					read |= n.right
				}
			}
		}
	}
	if read.String() != string(text) {
		return fmt.Errorf("bad rights %.40q: want a list like read,write", text)
	}
	*r = read
	return nil
}

// maxRights is more than the longest list takes.
const maxRights = 64
