// Package sessionlog is the append-only log of one workspace session, held by
// both sides.
//
// The requester owns the log: every call and its result, and what happened to
// the session, is a Record in an RFC 6962 Merkle tree. The provider keeps a
// replica. Neither can change, drop or reorder a record afterwards without the
// other's copy disagreeing, and the root that both sign commits to all of it.
//
// # What a record says
//
// Records are meant to become public one at a time, so they carry no path, no
// argument and no result, only salted commitments to them (Key.Commit). The
// salts come from a key that is fresh for each session and held by both sides;
// opening one value of one record opens nothing else.
//
// # Order
//
//	opened                       first, once; names the grant's digest
//	call allowed | call denied   allowed: logged and synced before it runs
//	result                       once for an allowed call, after it ran
//	path paused resumed cosigned at any time
//	closed | killed | expired | aborted   once, and last
//
// The log itself refuses anything else (ErrRecord), on both sides. So an
// allowed call id runs at most once, a result never appears without its
// intent, and no race can put an allowed call behind the end of the session.
// A call without a result has an unknown outcome and is counted so.
//
// # Writing
//
// Append returns when the records are on disk. Appends that come at the same
// time are folded into one synced transaction. If the store fails, the log is
// unavailable until it is opened again: whether the last records are on disk
// is then unknown, and a call must never run unlogged.
//
// # Heads and checkpoints
//
// Each message of the session carries a Head, signed with the message. Every
// so often both sides sign a checkpoint: a C2SP tlog-checkpoint note, the
// requester's line of note type 0x01 (ed25519), the provider's of type 0x04
// (cosignature/v1), each by a log subkey that its identity certifies
// (KeyCert). Proofs are C2SP tlog-proof@v1 files. Public tools verify all
// three: golang.org/x/mod/sumdb/note and tlog, transparency-dev's formats and
// merkle.
//
// Two parties that collude can rewrite their log; the log proves what one
// party did to the other, not to the world.
package sessionlog
