// Package session is the secure channel of a workspace session and the closed
// set of messages on it.
//
// This comment is the specification. Code that differs from it is a bug.
//
// # What it is for
//
// A session outlives its streams: it starts on a relayed stream, goes on over a
// direct one, and survives sleep, a restarted relay and a restarted node. So the
// session has a channel of its own over whatever streams there are. Each stream
// that carries it is an attachment, with its own keys. Messages, their numbers,
// acknowledgements and the resend buffer belong to the channel and survive
// streams.
//
// # Who speaks first
//
// Either side may open a stream (protocol id /weft/session/1) and thereby is
// the dialling side of that attachment. It speaks first:
//
//	dialling side                          answering side
//	  hello   -------------------------->
//	          <--------------------------  reply (or refusal)
//	  finish  -------------------------->
//	  frames  <------------------------->  frames, both ways until the end
//
// Integers are big endian; uvarint is unsigned LEB128 in its shortest form.
//
//	hello    8  "weftses" and the version, 1
//	         1  n, length of the session id, 1 to 64
//	         n  session id, of A-Z a-z 0-9 - _ .
//	        32  grant digest
//	        32  identity of the dialling side (ed25519)
//	        32  identity of the answering side
//	        32  X25519 ephemeral key of the dialling side
//	        16  boot id of the dialling side, not zero
//	reply    1  0
//	        32  X25519 ephemeral key of the answering side
//	        16  boot id of the answering side, not zero
//	        64  signature over hello and the 49 bytes above
//	finish  64  the dialling side's signature over the same bytes
//	refusal  1  1 no such session, 2 it has ended, 3 another grant or other
//	            parties, 4 busy, 5 a newer process took over
//	        64  signature over hello and the byte above
//
// Signatures are identity signatures under the purposes weft/session-reply/v1,
// weft/session-finish/v1 and weft/session-refuse/v1, so none can be turned back
// at its maker or serve for another message. What both sign names the session,
// the grant, both identities in their roles, both ephemeral keys and both boot
// ids: this is signed Diffie-Hellman with identities inside (SIGMA without
// identity protection, which the stream's own encryption gives). A hello proves
// nothing by itself; it changes no state before finish has verified. Whoever
// looks a session up by a hello first compares hello.Peer with the identity that
// the stream's own security proved.
//
// The keys are HKDF-SHA-256 (RFC 5869) of the X25519 secret (RFC 7748, zero
// secrets refused), salt SHA-256(hello || first 49 bytes of reply), info
// "weft/session/1 dialling side" and "weft/session/1 answering side", 32 bytes
// each, one for each direction. No key outlives its attachment, so a captured
// frame opens in no other one, and a stolen identity key opens no past one.
//
// # Frames
//
//	4  length of what follows: 17 to 65552
//	   ChaCha20-Poly1305 (RFC 8439) of the plaintext; the nonce is four zero
//	   bytes and the number of the frame in its direction, from 0; the
//	   associated data are the four length bytes
//
// The plaintext is one or more items:
//
//	0x01 resume  for each of the two lanes: uvarint next message, uvarint byte
//	             in it, then acknowledgements as below. First item of each
//	             direction, and only there.
//	0x02 ping    8 bytes
//	0x03 pong    the 8 bytes of the last ping
//	0x1L data    lane L: uvarint message number, uvarint offset, uvarint
//	             length, bytes. A message's first 10 bytes come together.
//	0x2L ack     lane L: uvarint n, uvarint length, bit field. All messages up
//	             to n are done, and n+1+i for each set bit i (least significant
//	             bit of the first byte is i = 0).
//
// A message in its lane's byte stream:
//
//	1  kind
//	1  flags: 1 signed
//	4  header length
//	4  body length
//	   header (strict JSON), body (raw bytes), signature (64 bytes, if signed)
//
// Reordered, repeated, lost, changed or foreign frames don't open, since the
// nonce counts; a truncated stream ends between frames or inside one and the
// session then waits for the next stream. What doesn't open, is malformed,
// exceeds a limit, leaves a gap or names an unknown kind ends that attachment
// with a typed error that wraps ErrProtocol. It never changes the channel:
// nothing is skipped, the next attachment goes on where this one was.
//
// # Pairing, order and what is delivered how often
//
// Each life of each side's Channel has a random boot id. Two lives form a
// pairing. Within a pairing each lane numbers its messages from 1. A receiver
// takes the bytes of a lane strictly in order, drops what it has already and
// refuses a gap, so streams may overlap: the newest attachment carries what is
// sent, all are received from, and the death of one loses and repeats nothing.
// After a resume item, sending goes on at the byte that the peer named, so a
// message larger than what one relayed stream may carry still gets through in
// pieces.
//
//   - While both lives last, each message is delivered exactly once, in the order
//     of Send within its lane.
//   - When the peer restarts (another boot id), a new pairing begins: what the
//     old life had not acknowledged is numbered anew and sent again. A message
//     may then arrive that the old life had already acted on: across restarts
//     delivery is AT LEAST ONCE, and receivers must recognise what they have
//     done, by call id, log position or state.
//   - When this side restarts, its resend buffer is gone. Whoever needs a message
//     to survive that stores it and sends it again.
//   - What a restarted peer's former life sent and Receive had not returned yet
//     is dropped: it was never acknowledged.
//
// An acknowledgement means done, not received: it leaves only after
// Delivery.Done, which the application calls when the message's effect is
// durable. Done may come late and in any order.
//
// A life that was replaced can't return: its handshakes get refusal 5 (the last
// 256 such boot ids are remembered), and a handshake that this side began before
// the current life appeared is refused, so a relay can't play an old life
// against a new one by delay.
//
// # Lanes
//
// Lane 0 (LaneMain) is the default and gives one total order. Lane 1 (LaneBulk)
// is for large messages whose order among the others doesn't matter. While both
// have data they share each frame by 16 KiB, so a 1 MiB body on lane 1 delays a
// message on lane 0 by one frame. Within one lane a message waits for those
// before it.
//
// # Limits
//
//	hello                 217 bytes, read exactly: nothing is buffered for a stranger
//	handshake             10 s for all of it; 8 at once for a channel
//	attachments           4: old and new path, each dialled by both sides; a
//	                      fifth ends the oldest
//	frame                 64 KiB of plaintext: small buffers, quick turns
//	header                64 KiB; 1 MiB for result, records, closing
//	body                  4 MiB for call and result, none for the others
//	window                8 MiB and, for each lane, 2048 messages from the
//	                      oldest unacknowledged on; 1 MiB of it only for messages
//	                      of at most 64 KiB, so late Done of bulk stops no State
//	acknowledgement       within 20 ms of Done, at once after 1 MiB or 256
//	                      messages, else with the next data
//	ping                  after 5 s without a frame; 6 s on the answering side
//	dead                  after 15 s without a frame or without the pong; a write
//	                      that blocks for 10 to 15 s
//	last words            250 ms at Close
//
// A receiver enforces the window, so the peer can make it hold 8 MiB of messages
// and no more, and it never waits for the application before it reads on. The
// sender applies the same rule in Send. A hostile peer can therefore make a
// channel use about 16 MiB and at most 12 streams.
//
// Liveness: a side that heard nothing for its time asks; question and answer
// restart both clocks, so an idle path costs two small frames every 5 s.
//
// # Messages
//
// The set is closed, and a test keeps this list. None carries a prompt: free
// text exists only inside a tool's own bounded and logged arguments, in the
// output of a command, and in one-line reasons of at most 200 bytes.
//
//	 1 call        provider   signed  id seq tool args_len deadline_ms size root + body
//	 2 cancel      provider           id
//	 3 progress    requester          call n text(4096)
//	 4 result      requester  signed  call verdict code kind mime records first size root + body
//	 5 records     requester  signed  records first size root
//	 6 welcome     requester          log_key cert grant salt size root state
//	 7 joined      provider           log_key cert size root
//	 8 checkpoint  requester          note
//	 9 cosign      provider           line size
//	10 state       requester          state reason
//	11 leave       provider           reason
//	12 closing     requester          receipt
//	13 closed      provider           sig
//
// Members are of these sets: verdict ok failed denied unknown; kind text image
// binary; state open paused killed expired closed aborted. A member left out
// has its zero value; an unknown, repeated or differently spelled one is
// refused.
//
// A message signature is an identity signature under weft/session-msg/v1 over
//
//	4  length of the session id, then the session id
//	1  kind
//	4  length of the header, then the header as carried
//	32 SHA-256 of the body
//
// It binds a call to its session, so a call captured in one session is worthless
// in another, and it proves itself when stored.
//
// # On a relayed path
//
// Relay OK: yes. The relay carries ciphertext of the stream's own security with
// this channel's ciphertext inside. Default relays cut a circuit after 128 KiB
// or 2 minutes; the session goes on over the next one, mid-message if need be.
// Streams must be opened with the opt-in for limited connections and a bounded
// wait.
//
// # Versions
//
// The number in the protocol id is the version of everything above, and the
// hello repeats it. A change that an older reader would misread gets a new
// number, and both are offered for a release. There is no negotiation inside
// the handshake, so none can be downgraded. Header members are strict: a new
// member is a new version too.
package session
