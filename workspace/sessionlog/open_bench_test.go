package sessionlog

import (
	"fmt"
	"testing"
)

// BenchmarkOpen is reading and checking a log of 10,000 records again.
func BenchmarkOpen(b *testing.B) {
	db := openStore(b)
	l := openLog(b, db)
	mustAppend(b, l, opened())
	for i := 0; i < 10_000; i += 200 {
		var recs []Record
		for j := i; j < i+100; j++ {
			id := fmt.Sprintf("0190c2f0-7f3a-7000-8000-%012d", j)
			recs = append(recs, call(id, "read_file"), result(id, "read_file", OK))
		}
		mustAppend(b, l, recs...)
	}
	for b.Loop() {
		openLog(b, db)
	}
}
