package session

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzHello: whatever a stranger sends is refused or means exactly one thing.
func FuzzHello(f *testing.F) {
	r, p := configs(f)
	h := &Hello{Session: "s-1", Grant: testGrant, Peer: p.Self.Public(), To: r.Self.Public(), boot: Boot{1}, eph: [32]byte{9}}
	good := appendHello(nil, h)
	f.Add(good)
	f.Add(good[:20])
	f.Add(append([]byte("weftses\x01\xff"), make([]byte, 300)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		in := bytes.NewReader(b)
		h, err := readHello(in)
		read := len(b) - in.Len()
		if read > helloHead+maxSession+helloTail {
			t.Fatalf("read %d bytes", read)
		}
		if err != nil {
			return
		}
		if again := appendHello(nil, h); !bytes.Equal(again, b[:read]) || !bytes.Equal(h.raw, again) {
			t.Fatalf("%x read as %x", b[:read], again)
		}
	})
}

// FuzzFrame: the items of an opened frame. A decoded item encodes to the same
// bytes, and no plaintext changes a channel in a way that panics or holds more
// than the window.
func FuzzFrame(f *testing.F) {
	msg := wireMessage(progress(f, 1, 10))
	f.Add(append(freshResume(), dataItem(0, position{seq: 1}, msg)...))
	f.Add(append(freshResume(), dataItem(1, position{seq: 1}, msg[:12])...))
	f.Add(append(freshResume(), appendAck([]byte{itemAck}, ack{upto: 1, bits: []byte{5}})...))
	f.Add(append(freshResume(), 2, 1, 2, 3, 4, 5, 6, 7, 8, 3, 1, 2, 3, 4, 5, 6, 7, 8))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > maxPlain {
			return
		}
		for rest, it := b, (item{}); len(rest) > 0; {
			before := rest
			var err error
			if rest, err = decodeItem(rest, &it); err != nil {
				break
			}
			if again := encodeItem(&it); !bytes.Equal(again, before[:len(before)-len(rest)]) {
				t.Fatalf("%x read as %x", before[:len(before)-len(rest)], again)
			}
		}
		rc, _ := configs(t)
		c := New(rc)
		defer c.Close()
		sa, sd := pipe()
		defer sd.Close()
		defer sa.Close()
		a := &attachment{st: sa, wake: make(chan struct{}, 1), done: make(chan struct{})}
		for range 2 {
			c.take(a, bytes.Clone(b))
		}
		if c.held > Window || c.held < 0 || c.queued != 0 {
			t.Fatalf("held %d, queued %d", c.held, c.queued)
		}
	})
}

// encodeItem is the inverse of decodeItem.
func encodeItem(it *item) []byte {
	switch it.typ {
	case itemData:
		return dataItem(it.lane, it.at, it.data)
	case itemAck:
		return appendAck([]byte{itemAck | byte(it.lane)}, it.ack)
	case itemResume:
		b := []byte{itemResume}
		for l := range it.next {
			one := appendData(nil, 0, it.next[l], 0) // type, seq, off, length
			b = append(b, one[1:len(one)-1]...)
			b = appendAck(b, it.acks[l])
		}
		return b
	}
	return append([]byte{it.typ}, byte(it.token>>56), byte(it.token>>48), byte(it.token>>40), byte(it.token>>32),
		byte(it.token>>24), byte(it.token>>16), byte(it.token>>8), byte(it.token))
}

// FuzzMessage: a message is refused or has one encoding, within its limits.
func FuzzMessage(f *testing.F) {
	f.Add(wireMessage(progress(f, 1, 10)))
	f.Add(wireMessage(bulk(f, testKey(f, "provider"), 1, 10)))
	f.Add([]byte{1, 1, 0, 1, 0, 1, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMessage(b)
		if err != nil {
			return
		}
		if err := m.check(); err != nil {
			t.Fatalf("decoded, but %v", err)
		}
		if again := wireMessage(m); !bytes.Equal(again, b) {
			t.Fatalf("%x read as %x", b, again)
		}
	})
}

// fuzzHeader: a header that decodes also encodes, and means the same again.
func fuzzHeader(f *testing.F, k Kind) {
	c := codecs[k]
	m, err := c.encode(c.good)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(m.Header)
	f.Add([]byte(`{}`))
	f.Add(append(bytes.TrimSuffix(m.Header, []byte("}")), `,"x":1}`...))
	f.Fuzz(func(t *testing.T, b []byte) {
		in := m
		in.Header = b
		h, err := c.decode(in)
		if err != nil {
			return
		}
		out, err := c.encode(h)
		if err != nil {
			t.Fatalf("decoded %q, but %v", b, err)
		}
		again, err := c.decode(out)
		if err != nil {
			t.Fatalf("%q: %v", out.Header, err)
		}
		if d := cmp.Diff(h, again); d != "" {
			t.Fatal(d)
		}
	})
}

func FuzzCall(f *testing.F)       { fuzzHeader(f, KindCall) }
func FuzzCancel(f *testing.F)     { fuzzHeader(f, KindCancel) }
func FuzzProgress(f *testing.F)   { fuzzHeader(f, KindProgress) }
func FuzzResult(f *testing.F)     { fuzzHeader(f, KindResult) }
func FuzzRecords(f *testing.F)    { fuzzHeader(f, KindRecords) }
func FuzzWelcome(f *testing.F)    { fuzzHeader(f, KindWelcome) }
func FuzzJoined(f *testing.F)     { fuzzHeader(f, KindJoined) }
func FuzzCheckpoint(f *testing.F) { fuzzHeader(f, KindCheckpoint) }
func FuzzCosign(f *testing.F)     { fuzzHeader(f, KindCosign) }
func FuzzState(f *testing.F)      { fuzzHeader(f, KindState) }
func FuzzLeave(f *testing.F)      { fuzzHeader(f, KindLeave) }
func FuzzClosing(f *testing.F)    { fuzzHeader(f, KindClosing) }
func FuzzClosed(f *testing.F)     { fuzzHeader(f, KindClosed) }
