// Package node is the daemon: it composes the store, the identity, the libp2p
// host, the loopback API and the components, and owns their lifecycle.
//
// Start, in node.go, is the whole wiring in reading order. Close undoes it in
// the reverse order and returns when every goroutine has ended.
//
// # Adding a component
//
// A part of the daemon with a life and routes of its own (workspace sessions,
// the market, own devices) is a component: see component.go for what it must
// do, and the method components in the same file for the one list of them. A
// component gets what it needs (n.db, n.host, n.book, n.key, n.log, n.metrics)
// in its constructor and registers its protocols there, with host.Handle.
//
// # The API of this package
//
//	GET    /v1/status          how this node is
//	GET    /v1/netcheck        how it is reachable
//	GET    /v1/doctor          what is wrong here and how to mend it
//	GET    /v1/peers           the contacts
//	POST   /v1/peers           add a contact, or addresses to one
//	PATCH  /v1/peers/{peer}    name a contact
//	DELETE /v1/peers/{peer}    forget a contact
//	GET    /v1/resolve?peer=   the ids of a peer, however it is spelled
//	POST   /v1/ping            events: a reply or a path change each
//	GET    /metrics            Prometheus, libp2p's metrics and ours
//
// Times in JSON are seconds (uptime) or milliseconds (rtt) as numbers, and
// RFC 3339 for moments.
package node
