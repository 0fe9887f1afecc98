package sessionlog

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
)

func TestProofAttacks(t *testing.T) {
	t.Parallel()
	s := newSides(t, testSession, 1, 2)
	l := openLog(t, openStore(t))
	mustAppend(t, l, story()...)
	cp := s.signed(t, l.Head(), true)
	leaves := leavesOf(t, l)
	prove := func(i uint64) []byte {
		p, err := l.Prove(i, cp, s.Parties)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	good := prove(5)
	flips(good, func(i int, changed []byte) {
		if _, _, err := CheckProof(changed, leaves[5], s.Parties); err == nil {
			t.Errorf("proof changed at %s, still valid", around(good, i))
		}
	})
	flips(leaves[5], func(i int, changed []byte) {
		if _, _, err := CheckProof(good, changed, s.Parties); err == nil {
			t.Errorf("record changed at %s, still valid", around(leaves[5], i))
		}
	})
	edit := func(old, new string) []byte { return []byte(strings.Replace(string(good), old, new, 1)) }
	for name, c := range map[string]struct {
		proof, leaf []byte
	}{
		"of another record":    {good, leaves[6]},
		"index of another":     {edit("index 5", "index 6"), leaves[6]},
		"index out of range":   {edit("index 5", "index 12"), leaves[5]},
		"index with zero":      {edit("index 5", "index 05"), leaves[5]},
		"index with plus":      {edit("index 5", "index +5"), leaves[5]},
		"index huge":           {edit("index 5", "index 99999999999999999999"), leaves[5]},
		"extra line":           {edit("index 5", "extra aGk=\nindex 5"), leaves[5]},
		"other version":        {edit("@v1", "@v2"), leaves[5]},
		"no hashes":            {append([]byte("c2sp.org/tlog-proof@v1\nindex 5\n\n"), cp...), leaves[5]},
		"no checkpoint":        {[]byte("c2sp.org/tlog-proof@v1\nindex 5\n"), leaves[5]},
		"only a header":        {[]byte("c2sp.org/tlog-proof@v1\n\n"), leaves[5]},
		"empty":                {nil, leaves[5]},
		"empty record":         {good, nil},
		"a node as the record": {good, append([]byte{1}, make([]byte, 64)...)},
		"too long":             {append(good, make([]byte, maxProof)...), leaves[5]},
		"one hash more":        {edit("\n\n", "\n"+strings.Repeat("A", 43)+"=\n\n"), leaves[5]},
	} {
		if _, _, err := CheckProof(c.proof, c.leaf, s.Parties); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	other := newSides(t, "othersession", 1, 2)
	if _, _, err := CheckProof(good, leaves[5], other.Parties); err == nil {
		t.Error("accepted for another session")
	}
	if _, err := l.Prove(12, cp, s.Parties); !errors.Is(err, ErrProof) {
		t.Errorf("prove past the end: %v", err)
	}
	if _, err := l.Prove(0, s.signed(t, Head{Size: 12}, true), s.Parties); !errors.Is(err, ErrFork) {
		t.Errorf("prove under another root: %v", err)
	}
	if _, err := l.Prove(0, s.signed(t, Head{Size: 13}, true), s.Parties); !errors.Is(err, ErrGap) {
		t.Errorf("prove under a longer log: %v", err)
	}
	if _, err := l.Prove(0, []byte("x"), s.Parties); !errors.Is(err, ErrCheckpoint) {
		t.Errorf("prove under no checkpoint: %v", err)
	}
}

// FuzzCheckProof: nothing but the one proof verifies, and nothing panics.
func FuzzCheckProof(f *testing.F) {
	s := newSides(f, testSession, 1, 2)
	p := NewReplay(testSession)
	var leaves [][]byte
	for _, r := range numbered(story()...) {
		leaf, err := r.encode()
		if err == nil {
			_, err = p.Add(leaf)
		}
		if err != nil {
			f.Fatal(err)
		}
		leaves = append(leaves, leaf)
	}
	path, err := tlog.ProveRecord(int64(len(leaves)), 5, &p.tree)
	if err != nil {
		f.Fatal(err)
	}
	good := formatProof(5, path, s.signed(f, p.Head(), true))
	alone := formatProof(5, path, s.signed(f, p.Head(), false))
	f.Add(good)
	f.Add(alone)
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, _, err := CheckProof(data, leaves[5], s.Parties); err == nil && string(data) != string(good) && string(data) != string(alone) {
			t.Fatalf("a forgery verifies: %q", data)
		}
	})
}
