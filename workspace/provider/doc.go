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
// them against the signed head before the answer goes to the agent; a head
// that doesn't fit ends the session on this side, and both signed heads stay
// as the proof.
package provider
