package session

import (
	"context"
	"encoding/binary"
	"io"
	"slices"
	"testing"
	"time"
)

// echoPair is a way to send one message and get it back. Each answers with the
// time one round trip took.
type echoPair func(body []byte) time.Duration

// rawEcho is the floor: a length, the bytes, and the same back.
func rawEcho(b *testing.B, near, far Stream) echoPair {
	go func() {
		buf := make([]byte, 4+MaxBody)
		for {
			if _, err := io.ReadFull(far, buf[:4]); err != nil {
				return
			}
			n := 4 + binary.BigEndian.Uint32(buf)
			if _, err := io.ReadFull(far, buf[4:n]); err != nil {
				return
			}
			if _, err := far.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	b.Cleanup(func() { near.Close(); far.Close() })
	buf := make([]byte, 4+MaxBody)
	return func(body []byte) time.Duration {
		begun := time.Now()
		binary.BigEndian.PutUint32(buf, uint32(len(body)))
		n := 4 + copy(buf[4:], body)
		if _, err := near.Write(buf[:n]); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(near, buf[:n]); err != nil {
			b.Fatal(err)
		}
		return time.Since(begun)
	}
}

// channelEcho sends each body as a message of its own. Signatures are not part
// of the channel, so they are made once.
func channelEcho(b *testing.B, near, far Stream) echoPair {
	r, p := channels(b)
	ctx := context.Background()
	connect(ctx, r, p, far, near)
	go func() {
		for {
			d, err := r.Receive(ctx)
			if err != nil {
				return
			}
			d.Done()
			if r.Send(ctx, d.Message) != nil {
				return
			}
		}
	}()
	made := map[int]Message{}
	return func(body []byte) time.Duration {
		m, ok := made[len(body)]
		if !ok {
			m = bulk(b, testKey(b, "provider"), 1, len(body))
			made[len(body)] = m
		}
		begun := time.Now()
		if err := p.Send(ctx, m); err != nil {
			b.Fatal(err)
		}
		d, err := p.Receive(ctx)
		if err != nil {
			b.Fatal(err)
		}
		d.Done()
		return time.Since(begun)
	}
}

var benchSizes = []struct {
	name string
	size int
}{{"64B", 64}, {"4KiB", 4 << 10}, {"64KiB", 64 << 10}, {"1MiB", 1 << 20}}

// BenchmarkRoundTrip alternates the raw stream and the channel over a second
// stream of the same sort, so that both see the same machine, and reports the
// median of each and the cost of one way.
func BenchmarkRoundTrip(b *testing.B) {
	for _, s := range benchSizes {
		b.Run("tcp/"+s.name, func(b *testing.B) {
			n1, f1 := tcpPair(b)
			n2, f2 := tcpPair(b)
			compare(b, s.size, rawEcho(b, n1, f1), channelEcho(b, n2, f2))
		})
	}
	for _, s := range benchSizes {
		b.Run("pipe/"+s.name, func(b *testing.B) {
			n1, f1 := pipe()
			n2, f2 := pipe()
			compare(b, s.size, rawEcho(b, n1, f1), channelEcho(b, n2, f2))
		})
	}
}

func compare(b *testing.B, size int, raw, channel echoPair) {
	body := make([]byte, size)
	for range 20 {
		raw(body)
		channel(body)
	}
	var raws, channels []time.Duration
	b.SetBytes(int64(2 * size))
	b.ReportAllocs()
	for b.Loop() {
		raws = append(raws, raw(body))
		channels = append(channels, channel(body))
	}
	slices.Sort(raws)
	slices.Sort(channels)
	r, c := raws[len(raws)/2], channels[len(channels)/2]
	b.ReportMetric(float64(r.Nanoseconds())/1e3, "raw-µs")
	b.ReportMetric(float64(c.Nanoseconds())/1e3, "chan-µs")
	b.ReportMetric(float64((c-r).Nanoseconds())/2e3, "cost-µs/way")
}

// BenchmarkOneWay streams messages as fast as the window allows and reports how
// many frames came back for each that went out.
func BenchmarkOneWay(b *testing.B) {
	for _, s := range benchSizes {
		b.Run(s.name, func(b *testing.B) {
			r, p := channels(b)
			ctx := context.Background()
			sa, sd := tcpPair(b)
			connect(ctx, r, p, sa, sd)
			m := bulk(b, testKey(b, "provider"), 1, s.size)
			b.SetBytes(int64(s.size))
			b.ReportAllocs()
			end := make(chan struct{})
			n := 0
			go func() {
				defer close(end)
				for {
					d, err := r.Receive(ctx)
					if err != nil {
						return
					}
					d.Done()
				}
			}()
			for b.Loop() {
				if err := p.Send(ctx, m); err != nil {
					b.Fatal(err)
				}
				n++
			}
			if err := p.Drain(ctx); err != nil {
				b.Fatal(err)
			}
			st := p.State()
			b.ReportMetric(float64(st.FramesOut)/float64(n), "frames/msg")
			b.ReportMetric(float64(st.FramesIn)/float64(st.FramesOut), "acks/frame")
			r.Close()
			<-end
		})
	}
}

// BenchmarkHandshake is one whole attachment and its end.
func BenchmarkHandshake(b *testing.B) {
	r, p := channels(b)
	for b.Loop() {
		ctx, cancel := context.WithCancel(context.Background())
		sa, sd := pipe()
		e := connect(ctx, r, p, sa, sd)
		attachedWithin(b, p, true)
		cancel()
		e.wait(b)
	}
}

// BenchmarkCodec is the cost of a message's typed header and signature.
func BenchmarkCodec(b *testing.B) {
	k := testKey(b, "provider")
	m := bulk(b, k, 1, 4<<10)
	b.Run("encode", func(b *testing.B) {
		h, _ := DecodeCall(m)
		for b.Loop() {
			if _, err := EncodeCall(h, m.Body); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			if _, err := DecodeCall(m); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("sign", func(b *testing.B) {
		for b.Loop() {
			Sign(k, "s-1", m)
		}
	})
	b.Run("verify", func(b *testing.B) {
		for b.Loop() {
			if err := Verify(k.Public(), "s-1", m); err != nil {
				b.Fatal(err)
			}
		}
	})
}
