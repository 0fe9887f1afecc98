package session

import (
	"bytes"
	"crypto/ecdh"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden vectors")

// vectors are the wire bytes of one fixed session, in hex, for other
// implementations. All secrets are SHA-256 of a word.
type vectors struct {
	Comment      string            `json:"comment"`
	Session      string            `json:"session"`
	Grant        string            `json:"grant"`
	DialSeed     string            `json:"dial_seed"`
	AnswerSeed   string            `json:"answer_seed"`
	DialEph      string            `json:"dial_ephemeral_private"`
	AnswerEph    string            `json:"answer_ephemeral_private"`
	DialBoot     string            `json:"dial_boot"`
	AnswerBoot   string            `json:"answer_boot"`
	Hello        string            `json:"hello"`
	Reply        string            `json:"reply"`
	Finish       string            `json:"finish"`
	Refusal      string            `json:"refusal_over"`
	DialKey      string            `json:"dial_key"`
	AnswerKey    string            `json:"answer_key"`
	DialFrames   []string          `json:"dial_frames"`
	AnswerFrames []string          `json:"answer_frames"`
	Messages     map[string]string `json:"messages"`
	Refused      map[string]string `json:"refused_messages"`
}

// tape records what one side writes.
type tape struct {
	Stream
	out bytes.Buffer
}

func (t *tape) Write(b []byte) (int, error) {
	t.out.Write(b)
	return t.Stream.Write(b)
}

func fixed(word string) []byte {
	sum := sha256.Sum256([]byte(word))
	return sum[:]
}

func fixedSecrets(t *testing.T, word string) secrets {
	eph, err := ecdh.X25519().NewPrivateKey(fixed(word + " ephemeral"))
	if err != nil {
		t.Fatal(err)
	}
	return secrets{eph: eph, boot: Boot(fixed(word + " boot")[:16])}
}

func TestGoldenVectors(t *testing.T) {
	t.Parallel()
	r, p := configs(t)
	ds, as := fixedSecrets(t, "provider"), fixedSecrets(t, "requester")
	v := vectors{
		Comment: "weft/session/1, the provider dials; seeds are SHA-256 of the side's name",
		Session: p.Session, Grant: hex.EncodeToString(p.Grant[:]),
		DialSeed: hex.EncodeToString(fixed("provider")), AnswerSeed: hex.EncodeToString(fixed("requester")),
		DialEph: hex.EncodeToString(ds.eph.Bytes()), AnswerEph: hex.EncodeToString(as.eph.Bytes()),
		DialBoot: hex.EncodeToString(ds.boot[:]), AnswerBoot: hex.EncodeToString(as.boot[:]),
		Messages: map[string]string{}, Refused: map[string]string{},
	}
	sa, sd := pipe()
	answerer, dialler := &tape{Stream: sa}, &tape{Stream: sd}
	ok := func(Boot) error { return nil }
	answered := make(chan established, 1)
	go func() {
		h, err := readHello(answerer)
		if err != nil {
			t.Error(err)
		}
		e, err := r.answer(answerer, h, as, ok)
		if err != nil {
			t.Error(err)
		}
		answered <- e
	}()
	e, err := p.dial(dialler, ds, ok)
	if err != nil {
		t.Fatal(err)
	}
	if other := within(t, answered); other.keys != e.keys || other.boot != ds.boot || e.boot != as.boot {
		t.Error("the two sides disagree")
	}
	said := dialler.out.Bytes()
	v.Hello = hex.EncodeToString(said[:len(said)-finishSize])
	v.Finish = hex.EncodeToString(said[len(said)-finishSize:])
	v.Reply = hex.EncodeToString(answerer.out.Bytes())
	v.DialKey, v.AnswerKey = hex.EncodeToString(e.keys.dial[:]), hex.EncodeToString(e.keys.answer[:])

	h, err := readHello(bytes.NewReader(said))
	if err != nil {
		t.Fatal(err)
	}
	v.Refusal = hex.EncodeToString(append([]byte{byte(RefuseOver)}, r.Self.Sign(purposeRefuse, append(h.raw, byte(RefuseOver)))...))

	keys := map[Role]*Config{Requester: &r, Provider: &p}
	for _, k := range Kinds() {
		m, err := codecs[k].encode(codecs[k].good)
		if err != nil {
			t.Fatal(err)
		}
		if k.Signed() {
			m = Sign(keys[k.From()].Self, r.Session, m)
		}
		v.Messages[k.String()] = hex.EncodeToString(wireMessage(m))
	}
	dial, answer := &raw{out: newSealer(e.keys.dial)}, &raw{out: newSealer(e.keys.answer)}
	call, _ := hex.DecodeString(v.Messages["call"])
	state, _ := hex.DecodeString(v.Messages["state"])
	v.DialFrames = []string{
		hex.EncodeToString(dial.frame(freshResume(), dataItem(LaneMain, position{seq: 1}, call[:100]))),
		hex.EncodeToString(dial.frame(dataItem(LaneMain, position{1, 100}, call[100:]), []byte{itemPing, 0, 0, 0, 0, 0, 0, 0, 1})),
	}
	v.AnswerFrames = []string{
		hex.EncodeToString(answer.frame(resumeItem(position{1, 100}, position{seq: 1}))),
		hex.EncodeToString(answer.frame([]byte{itemPong, 0, 0, 0, 0, 0, 0, 0, 1}, appendAck([]byte{itemAck}, ack{upto: 1}), dataItem(LaneBulk, position{seq: 1}, state))),
	}
	for name, change := range map[string]func(b []byte) []byte{
		"unknown kind":       func(b []byte) []byte { b[0] = 14; return b },
		"unknown flag":       func(b []byte) []byte { b[1] = 3; return b },
		"unsigned call":      func(b []byte) []byte { b[1] = 0; return b[:len(b)-sigSize] },
		"body of 4 MiB + 1":  func(b []byte) []byte { copy(b[6:], []byte{0, 0x40, 0, 1}); return b },
		"header of 64 KiB+1": func(b []byte) []byte { copy(b[2:], []byte{0, 1, 0, 1}); return b },
		"one byte short":     func(b []byte) []byte { return b[:len(b)-1] },
		"one byte more":      func(b []byte) []byte { return append(b, 0) },
	} {
		bad := change(bytes.Clone(call))
		v.Refused[name] = hex.EncodeToString(bad)
		if _, err := decodeMessage(bad); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}

	file := filepath.Join("testdata", "vectors.json")
	got, err := json.MarshalIndent(v, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("the wire changed: a new protocol version?\n%s", d)
	}
}

// TestGoldenIsRead reads the committed bytes with nothing but the readers.
func TestGoldenIsRead(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join("testdata", "vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	bin := func(s string) []byte {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	h, err := readHello(bytes.NewReader(bin(v.Hello)))
	if err != nil {
		t.Fatal(err)
	}
	reply := bin(v.Reply)
	transcript := append(bin(v.Hello), reply[:replySize-sigSize]...)
	if err := verifyHandshake(h.To, purposeReply, transcript, reply[replySize-sigSize:]); err != nil {
		t.Error(err)
	}
	if err := verifyHandshake(h.Peer, purposeFinish, transcript, bin(v.Finish)); err != nil {
		t.Error(err)
	}
	for key, frames := range map[string][]string{v.DialKey: v.DialFrames, v.AnswerKey: v.AnswerFrames} {
		var all []byte
		for _, f := range frames {
			all = append(all, bin(f)...)
		}
		in := newOpener(bytes.NewReader(all), [32]byte(bin(key)))
		for range frames {
			plain, err := in.next()
			if err != nil {
				t.Fatal(err)
			}
			for it := (item{}); len(plain) > 0; {
				if plain, err = decodeItem(plain, &it); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, k := range Kinds() {
		m, err := decodeMessage(bin(v.Messages[k.String()]))
		if err != nil {
			t.Errorf("%s: %v", k, err)
			continue
		}
		if _, err := codecs[k].decode(m); err != nil {
			t.Errorf("%s: %v", k, err)
		}
		signer := map[Role][]byte{Requester: h.To[:], Provider: h.Peer[:]}[k.From()]
		if k.Signed() {
			if err := Verify([32]byte(signer), v.Session, m); err != nil {
				t.Errorf("%s: %v", k, err)
			}
		}
	}
	for name, s := range v.Refused {
		if _, err := decodeMessage(bin(s)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
