// Package world runs the real weft binary for the end-to-end tests: it builds
// it once a test run, starts daemons in homes of their own, runs commands
// against them, takes them down hard or softly and brings them back.
//
//	func TestMain(m *testing.M) { os.Exit(world.Main(m)) }
//
//	w := world.New(t)
//	relay := w.Node(t, "relay", world.Config{Relay: true})
//	alice := w.Node(t, "alice", world.Config{Bootstrap: relay.Addrs()})
//	alice.Run(t, "status", "--json").OK(t).Into(t, &status)
//	alice.Kill9(t); alice.Up(t)
//
// Rules that every user of the package can rely on:
//
//   - Nothing sleeps: Until polls a condition to a deadline, and everything
//     that waits has one.
//   - Every process is the leader of its own process group and inherits an
//     environment built from nothing, with a home inside the world's folder.
//   - A world leaves no process behind. The test process is the reaper of all
//     its descendants (Linux), so one that escaped its group is found too: the
//     run fails with its command line, and ends it.
//   - What the daemons logged is shown when a test fails, and only then.
//
// Environment:
//
//	WEFT_E2E_BIN=FILE   test that binary instead of building one
//	WEFT_E2E_RACE=1     build it with the race detector
//	WEFT_E2E_DEBUG=1    daemons log all they can
//	WEFT_E2E_KEEP=1     keep the worlds' folders
//	CI=true             a missing tool or permission fails a test instead of
//	                    skipping it (see Missing)
//
// Tap records what passes between a node and a relay, Memory searches a
// process's memory; both show what a relay could have seen. A node with
// Config.Isolated lives in a network namespace whose only way out is its taps.
package world
