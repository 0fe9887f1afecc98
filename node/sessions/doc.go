// Package sessions is the daemon's desk for workspace sessions: it makes and
// receives offers, keeps each session's channel on a stream, and answers the
// session routes of the loopback API.
//
// Which side does what: the requester keeps the provider connected, delivers
// the offer until it is received, and answers streams. The provider, once a
// person accepted, keeps the requester connected and dials a stream whenever
// none carries the session, or when a direct path has come up beside a
// relayed one. Both go on after a restart until the session has ended and both
// have signed the receipt.
package sessions
