//go:build unix

package e2e

import (
	"os"
	"testing"

	"github.com/weftmesh/weft/test/e2e/world"
)

// world.Main checks for leaked goroutines and processes.
func TestMain(m *testing.M) { os.Exit(world.Main(m)) }
