package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/weftmesh/weft/protocols/strict"
)

// print writes v as JSON if that was asked for, else what human writes.
// Columns that human separates by tabs are aligned.
func (c *cli) print(v any, human func(w io.Writer)) error {
	if c.json {
		return c.printJSON(v)
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	human(w)
	return w.Flush()
}

// printJSON writes one document on a line.
func (c *cli) printJSON(v any) error {
	raw, err := strict.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	_, err = fmt.Fprintf(c.out, "%s\n", raw)
	return err
}

// millisText writes milliseconds for people.
func millisText(ms float64) string {
	switch {
	case ms == 0:
		return "-"
	case ms < 10:
		return fmt.Sprintf("%.2f ms", ms)
	case ms < 1000:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.1f s", ms/1000)
}

// secondsText writes a duration for people.
func secondsText(s float64) string {
	d := time.Duration(s * float64(time.Second))
	if d < time.Minute {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// or is s, or what to show instead of nothing.
func or(s, instead string) string {
	if s == "" {
		return instead
	}
	return s
}
