//go:build unix

package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/weftmesh/weft/test/e2e/world"
)

// tampered is how many single-byte changes are tried on each file, beside the
// first and last byte and the cuts.
const tampered = 40

// save writes a file into the world's folder.
func save(t *testing.T, p *pair, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(p.w.Dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// tamper changes one byte of a good file at a time and wants the command to
// fail with 7 each time.
func tamper(t *testing.T, p *pair, n *world.Node, file string, args func(file string) []string) {
	t.Helper()
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	n.Run(t, args(file)...).OK(t)
	seed := rand.Uint64()
	t.Logf("tamper with %s: seed %d", filepath.Base(file), seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	try := func(what string, bad []byte) {
		t.Helper()
		r := n.Run(t, args(save(t, p, filepath.Base(file)+".bad", bad))...)
		if r.Code != 7 {
			t.Errorf("%s, %s: exit code %d, want 7\nstdout: %s\nstderr: %s", filepath.Base(file), what, r.Code, r.Stdout, r.Stderr)
		}
	}
	places := []int{0, len(good) - 1}
	for range tampered {
		places = append(places, rng.IntN(len(good)))
	}
	for _, at := range places {
		bad := bytes.Clone(good)
		bad[at] ^= 1 << rng.IntN(7) // stays ASCII, so it is not only the decoder that finds it
		try(fmt.Sprintf("byte %d %q -> %q", at, good[at], bad[at]), bad)
	}
	try("cut by one line", good[:bytes.LastIndexByte(good[:len(good)-1], '\n')+1])
	try("cut in half", good[:len(good)/2])
	try("empty", nil)
	try("twice", append(bytes.Clone(good), good...))
}
