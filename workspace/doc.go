// Package workspace holds the words that every part of a workspace session
// shares: the virtual path, the rights and the refusal codes.
//
// A workspace session lets one provider's agent work in folders that a
// requester granted. The agent never sees a file system; it makes tool calls,
// the requester's gate decides each, effects happen only on the requester's
// machine, and a log that both sides sign records every call:
//
//	grant      the signed document that says who may do what, where, how long
//	gate       the decision for one call, in a fixed order of checks
//	files      the granted folders, reached by directory handles only
//	command    argv profiles, the sandbox and its jobs
//	redact     what is taken out of every result
//	tool       the table of tools: arguments, limits, results
//	sessionlog the Merkle log of a session and its checkpoints
//	receipt    the public document that carries the log's root
//	requester  the side whose folder it is
//	provider   the side whose agent works in it
package workspace
