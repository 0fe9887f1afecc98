// Package bench measures weft beside what a person would use instead, and
// beside what the machine can do at all. Its results, with the commands that
// made them, are in docs/performance.md.
//
//	make bench                                  all of it, a few minutes
//	go test -bench Call/read=4KiB ./test/bench  one table
//
// A machine that other work shares gives different times every second, so
// nothing here compares two runs. In each round of a benchmark every contender
// does the same operation once, in a shuffled order; the tables give medians
// of the rounds and medians of the rounds' ratios. CPU time is measured apart,
// in blocks of many operations, as the process's clock counts it for this
// process (the agent's side) and for those that serve it (clock_getcpuclockid(3)).
//
// Contenders of BenchmarkCall; each serves from another process than this one:
//
//	raw ...     one libp2p stream that stays open, the same bytes each way:
//	            the floor for anything on that transport
//	weft ...    provider.Session.Call to a daemon (weft up): gate, log, sync on
//	            both sides, signatures, and back; direct over QUIC or TCP,
//	            through a relay daemon, or with both stores in memory, where
//	            a sync costs nothing
//	weft mcp    what an agent sees: an MCP client, weft mcp, its daemon, the
//	            other daemon; over standard streams or HTTP
//	mcp ...     a plain MCP server of the same SDK (command peer) with no gate,
//	            log, signature or second machine, over a unix socket or
//	            streamable HTTP
//	sftp        OpenSSH's sshd and sftp-server
//
// Speed without the right answer is worth nothing: every content that arrives
// is compared by SHA-256 with what is on the disk, and at the end of a
// benchmark each session's log must hold exactly the calls that were made,
// each once.
package bench
