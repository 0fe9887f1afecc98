package session

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"fmt"
	"io"
	"time"

	"github.com/weftmesh/weft/protocols/identity"
)

// ReadHello reads the first message of a handshake from a fresh stream, so that
// the answering side can choose the channel. It reads at most 217 bytes within
// handshakeTimeout and resets the stream when it fails.
func ReadHello(ctx context.Context, st Stream) (*Hello, error) {
	stop := context.AfterFunc(ctx, func() { st.Reset() })
	defer stop()
	h, err := deadlined(st, func() (*Hello, error) { return readHello(st) })
	if err == nil && h.boot == (Boot{}) {
		err = fmt.Errorf("%w: boot id", ErrMalformed)
	}
	if err != nil {
		st.Reset()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("read session hello: %w", err)
	}
	return h, nil
}

// deadlined runs f with the handshake's deadline on the stream.
func deadlined[T any](st Stream, f func() (T, error)) (v T, err error) {
	if err = st.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return v, fmt.Errorf("set deadline: %w", err)
	}
	if v, err = f(); err != nil {
		return v, err
	}
	if err = st.SetDeadline(time.Time{}); err != nil {
		return v, fmt.Errorf("clear deadline: %w", err)
	}
	return v, nil
}

// Refuse declines h with a reason signed by self, and closes the stream. It is
// for the node when no channel fits; a Channel refuses by itself.
func (h *Hello) Refuse(st Stream, self *identity.Key, reason Refusal) error {
	_, err := deadlined(st, func() (int, error) {
		msg := append(h.raw[:len(h.raw):len(h.raw)], byte(reason))
		return st.Write(append([]byte{byte(reason)}, self.Sign(purposeRefuse, msg)...))
	})
	if err != nil {
		st.Reset()
		return fmt.Errorf("refuse session: %w", err)
	}
	return st.Close()
}

// secrets are the random values of one handshake, apart so that golden vectors
// can fix them.
type secrets struct {
	eph  *ecdh.PrivateKey
	boot Boot
}

func (c *Channel) newSecrets() (secrets, error) {
	eph, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return secrets{}, fmt.Errorf("generate ephemeral key: %w", err)
	}
	return secrets{eph: eph, boot: c.boot}, nil
}

// established is what a handshake yields.
type established struct {
	keys keys
	boot Boot // the peer's
	rtt  time.Duration
}

// dial speaks first: hello, reply, finish. Before finish leaves, commit decides
// whether this life of the peer may attach.
func (cfg *Config) dial(st io.ReadWriter, s secrets, commit func(Boot) error) (established, error) {
	hello := Hello{Session: cfg.Session, Grant: cfg.Grant, Peer: cfg.Self.Public(), To: cfg.Peer, boot: s.boot}
	copy(hello.eph[:], s.eph.PublicKey().Bytes())
	raw := appendHello(nil, &hello)
	begun := time.Now()
	if _, err := st.Write(raw); err != nil {
		return established{}, fmt.Errorf("send hello: %w", err)
	}
	var reply [replySize]byte
	if _, err := io.ReadFull(st, reply[:refuseSize]); err != nil {
		return established{}, fmt.Errorf("read reply: %w", err)
	}
	e := established{rtt: time.Since(begun)}
	if reply[0] != 0 {
		if err := verifyHandshake(cfg.Peer, purposeRefuse, append(raw, reply[0]), reply[1:refuseSize]); err != nil {
			return established{}, err
		}
		return established{}, &RefusedError{Reason: Refusal(reply[0])}
	}
	if _, err := io.ReadFull(st, reply[refuseSize:]); err != nil {
		return established{}, fmt.Errorf("read reply: %w", err)
	}
	const core = replySize - sigSize
	transcript := append(raw, reply[:core]...)
	if err := verifyHandshake(cfg.Peer, purposeReply, transcript, reply[core:]); err != nil {
		return established{}, err
	}
	copy(e.boot[:], reply[33:])
	if err := e.agree(s, [32]byte(reply[1:33]), transcript); err != nil {
		return established{}, err
	}
	if err := commit(e.boot); err != nil {
		return established{}, err
	}
	if _, err := st.Write(cfg.Self.Sign(purposeFinish, transcript)); err != nil {
		return established{}, fmt.Errorf("send finish: %w", err)
	}
	return e, nil
}

// answer speaks second. The hello was matched with the channel before.
func (cfg *Config) answer(st io.ReadWriter, h *Hello, s secrets, commit func(Boot) error) (established, error) {
	transcript := append(h.raw[:len(h.raw):len(h.raw)], 0)
	transcript = append(transcript, s.eph.PublicKey().Bytes()...)
	transcript = append(transcript, s.boot[:]...)
	e := established{boot: h.boot}
	if err := e.agree(s, h.eph, transcript); err != nil {
		return established{}, err
	}
	begun := time.Now()
	reply := transcript[len(h.raw):len(transcript):len(transcript)]
	if _, err := st.Write(append(reply, cfg.Self.Sign(purposeReply, transcript)...)); err != nil {
		return established{}, fmt.Errorf("send reply: %w", err)
	}
	var finish [finishSize]byte
	if _, err := io.ReadFull(st, finish[:]); err != nil {
		return established{}, fmt.Errorf("read finish: %w", err)
	}
	e.rtt = time.Since(begun)
	if err := verifyHandshake(cfg.Peer, purposeFinish, transcript, finish[:]); err != nil {
		return established{}, err
	}
	return e, commit(e.boot)
}

// agree computes the keys.
func (e *established) agree(s secrets, theirs [32]byte, transcript []byte) error {
	if e.boot == (Boot{}) || e.boot == s.boot {
		return fmt.Errorf("%w: boot id", ErrMalformed)
	}
	secret, err := sharedSecret(s.eph, theirs)
	if err != nil {
		return err
	}
	e.keys, err = deriveKeys(secret, transcript)
	return err
}

// match refuses a hello that is not for this channel.
func (cfg *Config) match(h *Hello) error {
	switch {
	case h.Session != cfg.Session:
		return fmt.Errorf("%w: session %s", ErrMismatch, h.Session)
	case h.Peer != cfg.Peer || h.To != cfg.Self.Public():
		return fmt.Errorf("%w: from %s to %s", ErrMismatch, h.Peer.AgentID(), h.To.AgentID())
	case h.Grant != cfg.Grant:
		return fmt.Errorf("%w: another grant", ErrMismatch)
	}
	return nil
}
