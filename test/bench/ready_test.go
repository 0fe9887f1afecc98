//go:build linux

package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weftmesh/weft/test/e2e/world"
)

// idleWatch is how long an idle node is looked at.
const idleWatch = 30 * time.Second

// BenchmarkIdle starts weft up on a new home and on one that was used, and
// then looks at an idle node for 30 s. TestIdleCost in cmd/weft keeps the
// budgets; this says what they come to.
func BenchmarkIdle(b *testing.B) {
	w := world.New(b)
	old := w.Node(b, "old", world.Config{})
	old.Stop(b)
	var fresh, again []time.Duration
	for b.Loop() {
		n := w.Node(b, fmt.Sprintf("fresh%d", len(fresh)), world.Config{})
		fresh = append(fresh, n.Started)
		n.Stop(b)
		old.Up(b)
		again = append(again, old.Started)
		old.Stop(b)
	}
	old.Up(b)
	before, began := cpu(old.PID()), time.Now()
	wait, cancel := context.WithTimeout(context.Background(), idleWatch)
	<-wait.Done()
	cancel()
	used := float64(cpu(old.PID())-before) / float64(time.Since(began))
	st, err := os.Stat(world.Build(b, "cmd/weft"))
	if err != nil {
		b.Fatal(err)
	}
	rss, anon := status(b, old.PID(), "VmRSS:"), status(b, old.PID(), "RssAnon:")
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(median(fresh).Milliseconds()), "ms:first-start")
	b.ReportMetric(float64(median(again).Milliseconds()), "ms:later-start")
	tables = append(tables, fmt.Sprintf("\n### Idle node\n\n%d starts; load %s\n\n| | goal | measured |\n|---|---|---|\n"+
		"| first start to ready, median | 300 ms | %d ms |\n| later start to ready, median | 300 ms | %d ms |\n"+
		"| resident memory after %v idle | 45 MB | %.1f MB, of which %.1f MB its own and the rest pages of files |\n| CPU over %v idle | 0.3 %% of a core | %.2f %% |\n| binary | - | %.1f MB |\n",
		len(fresh), load(), median(fresh).Milliseconds(), median(again).Milliseconds(),
		idleWatch, float64(rss)/1e6, float64(anon)/1e6, idleWatch, 100*used, float64(st.Size())/1e6))
}

// status reads a size of a process from proc(5), in bytes.
func status(tb testing.TB, pid int, key string) (bytes int64) {
	tb.Helper()
	f, err := os.Open(filepath.Join("/proc", fmt.Sprint(pid), "status"))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	var word string
	for {
		if _, err := fmt.Fscan(f, &word); err != nil {
			tb.Fatalf("%s of process %d: %v", key, pid, err)
		}
		if word == key {
			break
		}
	}
	if _, err := fmt.Fscan(f, &bytes); err != nil {
		tb.Fatal(err)
	}
	return bytes << 10
}
