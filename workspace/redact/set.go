package redact

import (
	"bytes"
	"encoding/binary"
	"sort"
	"sync"
)

// Placeholder replaces what was redacted. Writing it back would destroy the
// secret it stands for, so tools refuse content that holds it (IsPlaceholder).
const Placeholder = "[REDACTED:weft]"

// IsPlaceholder reports whether text holds a Placeholder.
func IsPlaceholder(text []byte) bool { return bytes.Contains(text, []byte(Placeholder)) }

const (
	// MinLength is the shortest value, in bytes without white space, that is
	// looked for. Shorter "secrets" (actions/runner#326) would mask everything.
	MinLength = 8

	// maxWhole is the longest pattern that is matched as a whole. Longer ones
	// are cut into pieces, so that a part of a long secret is found too.
	maxWhole = 48
	piece    = 24

	// maxValues bounds the memory of a Set: values beyond it in total are
	// counted by Ignored. Their forms take about 17 times as much.
	maxValues = 1 << 20

	// window is the number of bytes the scanner looks up at once.
	window = 8
)

// Secret is one value to look for.
type Secret struct {
	// Source says where the value comes from, for the owner's eyes only.
	Source string
	Value  []byte
}

// Set holds the patterns of known secrets. It is immutable and safe for
// concurrent use. The nil Set redacts nothing.
type Set struct {
	patterns [][]byte // each at least window long, without stripped bytes
	byKey    map[uint64][]int32
	filter   [1 << 10]uint64 // bloom over keys, so that most positions cost one load
	heads    map[uint64]bool // every prefix shorter than window, by headKey
	ignored  int
	spare    sync.Pool // of *Stream, for Redact
}

// New builds the Set of the secrets. Values that can't be looked for without
// masking ordinary text are left out and counted by Ignored.
func New(secrets []Secret) *Set {
	s := &Set{byKey: map[uint64][]int32{}, heads: map[uint64]bool{}}
	seen := map[string]bool{}
	total := 0
	for _, sec := range secrets {
		total += len(sec.Value)
		if total > maxValues {
			s.ignored++
			total -= len(sec.Value)
			continue
		}
		forms := patternsOf(sec.Value)
		if len(forms) == 0 {
			s.ignored++
		}
		for _, f := range forms {
			if !seen[string(f)] {
				seen[string(f)] = true
				s.add(f)
			}
		}
	}
	for _, ids := range s.byKey { // longest first: the longest match decides
		sort.Slice(ids, func(a, b int) bool { return len(s.patterns[ids[a]]) > len(s.patterns[ids[b]]) })
	}
	return s
}

// Ignored is the number of values that are not looked for: too short, too
// uniform, everyday words, or beyond the memory bound.
func (s *Set) Ignored() int {
	if s == nil {
		return 0
	}
	return s.ignored
}

// Len is the number of patterns looked for.
func (s *Set) Len() int {
	if s == nil {
		return 0
	}
	return len(s.patterns)
}

func (s *Set) add(p []byte) {
	key := binary.LittleEndian.Uint64(p)
	s.byKey[key] = append(s.byKey[key], int32(len(s.patterns)))
	s.patterns = append(s.patterns, p)
	h := mix(key)
	s.filter[h>>6] |= 1 << (h & 63)
	for n := 1; n < window; n++ {
		s.heads[headKey(p[:n])] = true
	}
}

// mix spreads a key over the filter's 2^16 bits.
func mix(key uint64) uint64 { return (key * 0x9E3779B97F4A7C15) >> 48 }

// headKey packs fewer than window bytes and their number.
func headKey(p []byte) uint64 {
	k := uint64(len(p)) << 56
	for i, c := range p {
		k |= uint64(c) << (8 * i)
	}
	return k
}

// longest returns the length of the longest pattern that text begins with; -1
// if text ends before a pattern does that agrees so far; 0 if there is none.
func (s *Set) longest(key uint64, text []byte) int {
	for _, id := range s.byKey[key] {
		p := s.patterns[id]
		switch have := min(len(p), len(text)); {
		case string(text[:have]) != string(p[:have]):
		case have == len(p):
			return have
		default:
			return -1
		}
	}
	return 0
}

// shorter is longest for text that will not be continued.
func (s *Set) shorter(key uint64, text []byte) int {
	for _, id := range s.byKey[key] {
		if p := s.patterns[id]; len(p) <= len(text) && string(text[:len(p)]) == string(p) {
			return len(p)
		}
	}
	return 0
}

// Redact returns p with every known secret replaced, and how many stretches
// were replaced. It returns p itself if there was nothing to replace.
func (s *Set) Redact(p []byte) ([]byte, int) {
	if s.Len() == 0 || len(p) == 0 {
		return p, 0
	}
	st, ok := s.spare.Get().(*Stream)
	if !ok {
		st = s.Stream()
	}
	head := st.Write(p)
	if len(head) != len(p) || st.Count() != 0 { // else nothing was held or replaced
		head = append(bytes.Clone(head), st.Flush()...)
	}
	n := st.Count()
	if n == 0 {
		head = p
	}
	if st.reset() {
		s.spare.Put(st)
	}
	return head, n
}
