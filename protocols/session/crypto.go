package session

import (
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/weftmesh/weft/protocols/identity"
)

// Purposes of the handshake's signatures, one for each thing that is said, so
// that none can be turned back or used for another.
const (
	purposeReply  = "weft/session-reply/v1"
	purposeFinish = "weft/session-finish/v1"
	purposeRefuse = "weft/session-refuse/v1"
)

// Labels of the two keys.
const (
	labelDial   = "weft/session/1 dialling side"
	labelAnswer = "weft/session/1 answering side"
)

// sharedSecret is X25519 (RFC 7748). It refuses points of small order, whose
// secret is zero (RFC 7748 section 6.1), and our own point sent back.
func sharedSecret(own *ecdh.PrivateKey, theirs [32]byte) ([]byte, error) {
	if [32]byte(own.PublicKey().Bytes()) == theirs {
		return nil, fmt.Errorf("%w: our own ephemeral key came back", ErrMismatch)
	}
	pub, err := ecdh.X25519().NewPublicKey(theirs[:])
	if err != nil {
		return nil, fmt.Errorf("%w: ephemeral key: %w", ErrMalformed, err)
	}
	s, err := own.ECDH(pub)
	if err != nil {
		return nil, fmt.Errorf("%w: ephemeral key of small order", ErrMalformed)
	}
	return s, nil
}

// keys are the two directions of one attachment.
type keys struct {
	dial, answer [chacha20poly1305.KeySize]byte
}

// deriveKeys is HKDF-SHA-256 (RFC 5869) of the X25519 secret, salted with the
// hash of everything that both sides sign.
func deriveKeys(secret, transcript []byte) (keys, error) {
	var k keys
	salt := sha256.Sum256(transcript)
	for label, out := range map[string][]byte{labelDial: k.dial[:], labelAnswer: k.answer[:]} {
		b, err := hkdf.Key(sha256.New, secret, salt[:], label, len(out))
		if err != nil {
			return keys{}, fmt.Errorf("derive session keys: %w", err)
		}
		copy(out, b)
	}
	return k, nil
}

// verifyHandshake checks a handshake signature of the peer.
func verifyHandshake(p identity.PublicKey, purpose string, msg, sig []byte) error {
	if !p.Verify(purpose, msg, sig) {
		return fmt.Errorf("%w: handshake not signed by %s", ErrSignature, p.AgentID())
	}
	return nil
}

// sealer encrypts the frames of one direction. The nonce is a counter (RFC 8439
// section 2.3: unique for a key); a key lives as long as one attachment.
type sealer struct {
	aead cipher.AEAD
	n    uint64
}

func newSealer(key [chacha20poly1305.KeySize]byte) *sealer {
	aead, err := chacha20poly1305.New(key[:])
	if err != nil {
		panic(err) // only for a key of another length
	}
	return &sealer{aead: aead}
}

// nonce is the next counter value, in the last eight bytes.
func (s *sealer) nonce() (nonce [chacha20poly1305.NonceSize]byte) {
	binary.BigEndian.PutUint64(nonce[4:], s.n)
	s.n++ // 2^64 frames of one byte outlast the machine
	return nonce
}

// seal turns buf, which is frameHead free bytes and then plaintext, into a
// frame in place. buf needs frameTag bytes of spare capacity.
func (s *sealer) seal(buf []byte) []byte {
	binary.BigEndian.PutUint32(buf, uint32(len(buf)-frameHead+frameTag))
	nonce := s.nonce()
	return s.aead.Seal(buf[:frameHead], nonce[:], buf[frameHead:], buf[:frameHead])
}

// opener reads and decrypts the frames of one direction.
type opener struct {
	r io.Reader
	sealer
	buf    []byte
	lo, hi int // buf[lo:hi] was read and is not yet opened
}

func newOpener(r io.Reader, key [chacha20poly1305.KeySize]byte) *opener {
	return &opener{r: r, sealer: *newSealer(key), buf: make([]byte, maxFrame+maxFrame/2)}
}

// next returns the plaintext of the next frame, valid until the next call. It
// returns io.EOF only between frames.
func (o *opener) next() ([]byte, error) {
	if err := o.fill(frameHead); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(o.buf[o.lo:])
	if n > maxFrame-frameHead {
		return nil, fmt.Errorf("%w: frame of %d bytes, the limit is %d", ErrTooLarge, n, maxFrame-frameHead)
	}
	if n <= frameTag {
		return nil, fmt.Errorf("%w: empty frame", ErrMalformed)
	}
	if err := o.fill(frameHead + int(n)); err != nil {
		return nil, fmt.Errorf("cut inside a frame: %w", err)
	}
	head := o.buf[o.lo : o.lo+frameHead]
	sealed := o.buf[o.lo+frameHead : o.lo+frameHead+int(n)]
	o.lo += frameHead + int(n)
	nonce := o.nonce()
	plain, err := o.aead.Open(sealed[:0], nonce[:], sealed, head)
	if err != nil {
		return nil, ErrSealed
	}
	return plain, nil
}

// fill reads until n bytes are there.
func (o *opener) fill(n int) error {
	if o.hi-o.lo >= n {
		return nil
	}
	if o.lo > 0 {
		copy(o.buf, o.buf[o.lo:o.hi])
		o.lo, o.hi = 0, o.hi-o.lo
	}
	m, err := io.ReadAtLeast(o.r, o.buf[o.hi:], n-o.hi)
	o.hi += m
	if err == io.EOF && o.hi > 0 {
		err = io.ErrUnexpectedEOF
	}
	return err
}
