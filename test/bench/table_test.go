//go:build linux

package bench

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// row is a contender and what was measured.
type row struct {
	contender
	times     []time.Duration // one a round
	near, far []time.Duration // CPU of one operation, one a block
}

// table is a section of docs/performance.md.
func (r race) table(rows []*row, before, after string) string {
	var b strings.Builder
	rounds := 0
	for _, c := range rows {
		rounds = max(rounds, len(c.times))
	}
	fmt.Fprintf(&b, "\n### %s\n\n%d rounds; load %s before, %s after\n\n| contender | p50 us | p90 us |", r.title, rounds, before, after)
	rule := "\n|---|---|---|"
	for _, a := range r.against {
		fmt.Fprintf(&b, " x %s |", a)
		rule += "---|"
	}
	if r.block > 0 {
		b.WriteString(" CPU here us | CPU there us |")
		rule += "---|---|"
	}
	b.WriteString(rule + "\n")
	for _, c := range rows {
		if c.skip != "" {
			fmt.Fprintf(&b, "| %s | skipped: %s |\n", c.name, c.skip)
			continue
		}
		fmt.Fprintf(&b, "| %s | %.0f | %.0f |", c.name, micros(median(c.times)), micros(quantile(c.times, 0.9)))
		for _, a := range r.against {
			i := slices.IndexFunc(rows, func(o *row) bool { return o.name == a })
			if i < 0 || rows[i].skip != "" {
				b.WriteString(" - |")
				continue
			}
			fmt.Fprintf(&b, " %.2f |", ratio(c.times, rows[i].times))
		}
		if r.block > 0 {
			fmt.Fprintf(&b, " %.0f | %.0f |", micros(median(c.near)), micros(median(c.far)))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// quantile of a copy; 0 for none.
func quantile[T ~int64 | ~float64](all []T, q float64) T {
	if len(all) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(all))
	return s[min(int(q*float64(len(s))), len(s)-1)]
}

func median[T ~int64 | ~float64](all []T) T { return quantile(all, 0.5) }

// ratio is the median of the ratios of each round.
func ratio(a, b []time.Duration) float64 {
	var all []float64
	for i := range min(len(a), len(b)) {
		all = append(all, float64(a[i])/float64(max(b[i], 1)))
	}
	return median(all)
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// unit names a contender for go test -bench, which wants no blanks.
func unit(name string) string { return "us:" + strings.ReplaceAll(name, " ", "_") }

// load is the machine's load of the last minute: above 1.5 or so the numbers
// are the neighbours' too.
func load() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	one, _, _ := strings.Cut(string(raw), " ")
	return one
}
