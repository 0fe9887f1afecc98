// Package requester is the side of a workspace session whose folder it is.
//
// It holds the granted folders, decides each call at the gate, runs what is
// allowed, and owns the session log. One call goes through it like this:
//
//	receive   the signed call comes off the channel
//	dedupe    a call id seen before answers from its stored result
//	gate      state, expiry, budget, arguments, rights, paths, commands
//	intent    the call record is durable, with the call itself
//	run       the tool, on a context that stop cancels
//	result    the result record and the answer are durable together
//	answer    the signed answer leaves, with the new records and head
//
// Nothing runs before its intent is durable, nothing leaves before its result
// is, and a log that can't be written ends the session. A restart reads the
// log: a call with an intent and no result gets the result "unknown", told to
// both sides, and is never run again by itself.
package requester
