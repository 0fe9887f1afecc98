// Package receipt is what remains of a workspace session: a public document
// that both sides sign, and the files that prove things against it.
//
//	receipt   a signed.Document of type signed.Receipt: who, under which grant,
//	          when, how many calls of which tool ended how, the session log's
//	          size and root, and its checkpoint with both certificates
//	export    the session log itself, one record a line, checked against a
//	          receipt: every number in the receipt is counted again
//	proof     one record with the values its owner discloses, and its C2SP
//	          tlog-proof; whoever sees it learns of no other record
//
// All three verify offline, with nothing but the file (and the receipt, for an
// export). Nothing in them names a path of either machine. Each has one
// encoding, so that no byte of it can change unseen.
//
// # Who says what
//
// The requester builds the receipt from the log (Build), so it has no claim
// that the log doesn't carry, but for Unacked. The provider countersigns it
// only if its replica gives the same numbers (Countersign). A receipt without
// the provider's signature is valid and says so: Cosigned is false, and
// Unacked says how many records the provider did not acknowledge. That number
// is the requester's word alone.
//
// A receipt proves what the two parties agreed on, or what the requester
// claims; not that the requester's machine did nothing beside the log.
package receipt
