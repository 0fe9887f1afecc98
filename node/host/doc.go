// Package host is the node's libp2p host: who we are on the network, how
// peers are reached, and what they may use of us.
//
// A peer is dialled by its identity; addresses are hints from whoever knows
// one (the owner, the last run, the LAN, a relay both sides use) and prove
// nothing, since every connection authenticates the key. Order of life:
//
//	h, err := host.New(cfg)      // nothing listens, nothing is dialled
//	h.Handle(protocol, handler)  // all handlers, before any peer identifies us
//	err = h.Start(ctx)           // listens; bootstrap peers are dialled and kept
//	h.Keep(peer)                 // and any other wanted peer
//	h.Close()                    // returns when every goroutine has ended
//
// # Paths
//
// A path is how two peers are connected: "direct quic", "direct tcp",
// "webrtc" or "relay". Several connections to one peer may exist; new streams
// use the best (direct before relay, a relay without limits before one with
// limits). A stream never moves: after a change of path its owner opens a new
// one (design.md section 5). A relayed connection to a wanted peer is kept as
// a spare and a direct one is tried at once, then every minute, then on every
// change of address.
//
// # Wanted peers
//
// Keep makes a peer wanted: its connections are exempt from trimming, every
// one of them is pinged each Heartbeat, and one that has been silent for a
// whole further Heartbeat is closed, so that a vanished peer is noticed
// within two heartbeats instead of QUIC's 30 s. A lost peer is redialled at once,
// then with growing jittered delays, always with libp2p's dial back-off
// cleared. Bootstrap peers are wanted, and where one offers a relay a
// reservation is held on it and renewed within a second of its return.
//
// # What a stranger may use
//
// A stranger is a peer the owner has not added. Strangers share a bounded
// part of connections and of each protocol's streams (protocols/doc.go,
// limits.go), so they can't use up what the owner's own peers need. Keys that
// are not ed25519, or are ed25519 of small order, are refused when the
// connection is secured. With Relay set, circuits that a known peer opens
// have no limits; those of strangers get libp2p's defaults (128 KiB each way,
// two minutes).
package host
