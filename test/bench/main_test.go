//go:build linux

package bench

import (
	"fmt"
	"os"
	"testing"

	"github.com/weftmesh/weft/test/e2e/world"
)

// world.Main checks for leaked goroutines and processes. The tables of all
// benchmarks come at the end, where the test framework's own lines can't run
// into them.
func TestMain(m *testing.M) {
	code := world.Main(m)
	for _, t := range tables {
		fmt.Print(t)
	}
	os.Exit(code)
}

// tables are what the benchmarks have to show, in their order.
var tables []string
