// Package offer carries a workspace grant from its requester to its provider.
//
// The requester speaks first, on a stream of its own:
//
//	requester                          provider
//	   |-- frame: grant (signed doc) --->|   at most signed.MaxDocument bytes
//	   |<-- frame: {"outcome","hint"} ---|   at most 4 KiB
//
// outcome is one of received, known (the same grant again), busy (the
// provider keeps too many unanswered offers), refused (not a grant for this
// provider, expired, malformed). An offer asks nothing of the provider's
// machine: it is stored, bounded, and shown to the person; accepting it opens
// a session (package session), which is the provider's answer. Both sides
// give the stream 10 s. The protocol runs over relayed paths too.
package offer
