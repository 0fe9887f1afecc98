//go:build !race

package store

// raceEnabled says that this binary runs under the race detector.
const raceEnabled = false
