//go:build linux

package bench

import (
	"context"
	"math/rand"
	"testing"
	"time"
)

// opTime bounds one operation.
const opTime = 30 * time.Second

// contender is one way to get something done.
type contender struct {
	name string
	// op does it once, checks what came, and returns an error if that is not
	// what it should be.
	op func(context.Context) error
	// serve are the processes that work for it besides this one.
	serve []int
	// skip, if set, says why it can't run here.
	skip string
}

// race is one table.
type race struct {
	title string
	// against are the contenders that the others are compared with: a column
	// of ratios each.
	against []string
	// block is how many operations make one measurement of CPU time; 0 means
	// that it isn't measured.
	block int
}

// Rounds before the clock runs, so that caches, windows and pools are warm,
// and how often CPU time is measured.
const (
	warmUp = 5
	blocks = 5
)

// run times every contender once a round, then measures CPU time. The times
// of a contender that isn't here are missing from the table, with the reason.
func (r race) run(b *testing.B, all []contender) {
	b.Helper()
	rows := make([]*row, 0, len(all))
	for _, c := range all {
		rows = append(rows, &row{contender: c})
	}
	each := func(do func(*row)) {
		for _, i := range rand.Perm(len(rows)) {
			if rows[i].skip == "" {
				do(rows[i])
			}
		}
	}
	once := func(c *row) {
		ctx, cancel := context.WithTimeout(context.Background(), opTime)
		defer cancel()
		if err := c.op(ctx); err != nil {
			b.Fatalf("%s: %s: %v", r.title, c.name, err)
		}
	}
	for range warmUp {
		each(once)
	}
	before := load()
	for b.Loop() {
		each(func(c *row) {
			began := time.Now()
			once(c)
			c.times = append(c.times, time.Since(began))
		})
	}
	if r.block > 0 {
		for range blocks {
			each(func(c *row) {
				near, far := cpu(0), cpuOf(c.serve)
				for range r.block {
					once(c)
				}
				c.near = append(c.near, (cpu(0)-near)/time.Duration(r.block))
				c.far = append(c.far, (cpuOf(c.serve)-far)/time.Duration(r.block))
			})
		}
	}
	b.ReportMetric(0, "ns/op") // of a whole round: says nothing
	for _, c := range rows {
		if c.skip == "" {
			b.ReportMetric(micros(median(c.times)), unit(c.name))
		}
	}
	tables = append(tables, r.table(rows, before, load()))
}
