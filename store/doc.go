// Package store keeps a node's state in one Badger database: typed
// collections, append-only logs and replay guards, all written through one
// group committer.
//
// # What a caller may rely on
//
//   - Update returns nil only after its writes are synced to the disk.
//     kill -9, a full disk or a power cut loses nothing that was acknowledged,
//     and shows nothing of a write that was not finished.
//   - The functions given to Update run one at a time, on one goroutine. Each
//     sees everything that ran before it and its own writes. An error drops
//     the writes of that function alone.
//   - A View is a snapshot: it sees whole updates only. It waits for a commit
//     that is under way, since Badger's snapshots include it, and for nothing
//     else.
//   - A damaged file is an error, ErrCorrupt, not missing or other data, as far
//     as checksums can tell: of tables at Open, of values whenever they are
//     read, of the logs at Open unless the store is encrypted.
//
// # How a write travels
//
// Update puts its function in a bounded queue. The committer takes whatever
// waits, runs each function over an overlay of its own, folds the overlays of
// those that succeeded into one Badger transaction, and syncs once for all.
// Badger syncs once a transaction, so this is where concurrency gains: 64
// callers share about one sync.
//
// A function whose writes don't fit one Badger transaction (15 % of the
// memtable) is written as one redo record first, then applied in parts, then
// the redo record goes; Open finishes what a crash interrupted, and no View
// starts in between.
//
// # Choices, with what lost
//
//   - Values under 1 KiB stay beside their key. The 400-byte records of a
//     session log then touch one file in a commit; at the threshold of 128
//     that keeps a bulk load smallest, every commit dirties two files and
//     costs two disk syncs.
//   - A small memtable (4 MiB), no caches and no compression keep an idle
//     store near 2 MB of anonymous memory.
//   - Badger's compactors poll 20 times a second each and are nearly all of an
//     idle node's CPU. There are none here: one goroutine of ours compacts and
//     collects the value log when enough was written, and sleeps otherwise.
//   - Badger writes through memory maps, and a map that meets a full disk is a
//     SIGBUS. So each commit, Open and Close first ask for free space and
//     leave a reserve for the tables that Badger writes by itself. Another
//     program that takes the last 20 MiB within a moment can still kill the
//     process; nothing acknowledged is lost, and Open then says what is wrong.
//   - Badger only logs a failed sync of the value log. We read that line, and
//     fail the commit. After any failed write the store refuses everything
//     until it is opened again, since what the kernel still holds is unknown.
//
// # Files
//
// weft-store.json says that the folder is ours and which schema it has; LOCK
// is Badger's; weft.lock is held while a process has the store open and
// weft.pid names it; everything else is Badger's.
package store
