package requester

import "testing"

func TestWindow(t *testing.T) {
	t.Parallel()
	type step struct {
		n    uint64
		want bool
	}
	for name, steps := range map[string][]step{
		"rising":                     {{1, true}, {2, true}, {5, true}},
		"zero is no number":          {{0, false}},
		"again":                      {{1, true}, {1, false}},
		"late but new":               {{6, true}, {5, true}, {5, false}, {6, false}},
		"older than the window":      {{windowSize + 10, true}, {10, false}, {11, true}},
		"a jump forgets what is old": {{1, true}, {1 << 40, true}, {1, false}, {1<<40 - 1, true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w window
			for i, s := range steps {
				if got := w.take(s.n); got != s.want {
					t.Errorf("step %d: take(%d) = %v, want %v", i, s.n, got, s.want)
				}
			}
		})
	}
}

func TestWindowStaysSmall(t *testing.T) {
	t.Parallel()
	var w window
	for n := range uint64(100_000) {
		w.take(n + 1)
	}
	if len(w.seen) > 2*windowSize+1 {
		t.Errorf("%d numbers are remembered", len(w.seen))
	}
}
