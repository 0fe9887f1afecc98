// Package lan finds weft peers on the local network by multicast DNS.
//
// It speaks the libp2p mDNS protocol (libp2p specs, discovery/mdns.md; RFC
// 6762, RFC 6763) with a service name of its own:
//
//	question   PTR  _weft._udp.local
//	answer     PTR  _weft._udp.local -> NAME._weft._udp.local
//	additional TXT  NAME._weft._udp.local  "dnsaddr=/ip4/.../p2p/ID" ...
//
// NAME is random for each run. Everybody asks and answers, by multicast only,
// to 224.0.0.251 and ff02::fb, port 5353.
//
// Why not libp2p's own implementation: it freezes addresses and interfaces at
// its start (go-libp2p#1163), tells of each peer once in 53 minutes, and keeps
// every instance name it hears, so that one hostile machine on the network can
// fill its memory. Here the interfaces and addresses are read anew for each
// packet, and everything kept is bounded.
//
// # What is believed
//
// Nothing. Anybody on the network can announce any key with any address. A
// Candidate is a hint where to dial; the dial proves who answers. Announced
// addresses are numeric IP addresses with QUIC or TCP only, and of loopback
// only if the packet came by it.
//
// # Limits
//
// Packets above 9000 bytes (RFC 6762 section 17) are not read; 16 addresses of
// 256 bytes a packet; 256 candidates, of which those that Config.Prefer names
// always find room; 50 packets a second are looked at. A question is asked 3
// times at the start and then every minute, not at all if somebody else has
// just asked (section 7.3); answers are delayed 20 to 120 ms and given once a
// second at most.
package lan
