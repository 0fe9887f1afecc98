// Package api is the node's loopback HTTP API: the server that the daemon
// runs and the client that the commands use. Nothing else reaches a running
// node on this machine.
//
// # Who may speak
//
// The server listens on a loopback address only. At each start it writes
// <home>/api/token (0600, 32 random bytes) and then <home>/api/address; both
// go away at a graceful stop. Every request, /metrics too, needs the token,
// a loopback Host with our port, and no foreign Origin; see Guard.
//
// # Bodies
//
// Requests and responses are JSON, read strictly, at most MaxBody in a
// request. An error is {"error":{"code","message","hint"}} with the status of
// its Kind. A handler that failed after it began to answer cuts the
// connection.
//
// # Streams of events
//
// Stream answers with server-sent events (WHATWG HTML section 9.2): one JSON
// document a "data:" line, a comment line as a keep-alive, and at the end
// either "event: end" or "event: error" with the error document. A stream that
// ends with neither was cut.
//
// # Streams of bytes
//
// Upgrade switches a connection to raw bytes (HTTP/1.1 "Upgrade: weft-stream",
// RFC 9110 section 7.8), for verbs that copy bytes between a terminal and the
// node.
//
// # Limits
//
// 512 connections, 16 KiB of headers, 10 s to send them, 2 minutes idle; 10 s
// for a client to take one event.
package api
