// Package provider is the side of a workspace session whose agent works in
// another's folder.
//
// It keeps the grant, a replica of the session log, and the calls in flight.
// The agent talks MCP to the server of this package; each of its tool calls
// becomes one signed call message to the requester, and the requester's
// signed answer becomes the MCP result. Nothing of the folder is executed
// here: the only foreign things that arrive are bytes for the agent to read.
//
// Every answer brings the log records since the last one. The replica checks
// them against the signed head before the answer goes to the agent, and the
// answer against the record of its call: the log must commit to the very call
// that was sent and to the very bytes that came back. A head that doesn't fit,
// a record that breaks the log's rules, an answer that the log contradicts or
// another log key ends the session on this side (ErrFork). What was signed stays
// as the proof, and this side signs nothing more.
//
// Both processes may restart at any time. A call number is durable before it is
// used, so none is used twice; calls in flight end with the provider's process,
// and are sent again, byte for byte, to a requester that restarted.
package provider
