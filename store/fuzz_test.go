package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"log/slog"
	"maps"
	"testing"
)

// Distinct names and keys must never meet in one key of the database.
func FuzzRecordKey(f *testing.F) {
	f.Add("log", "stream", uint64(0))
	f.Add("a/b", "s\x00", uint64(1)<<63)
	f.Add("", "", uint64(9))
	f.Fuzz(func(t *testing.T, name, stream string, seq uint64) {
		valid := validName(name) && checkStream(stream) == nil
		n, s, q, ok := parseRecordKey(recordKey(name, stream, seq))
		if valid && (!ok || n != name || s != stream || q != seq) {
			t.Errorf("%q %q %d came back as %q %q %d %v", name, stream, seq, n, s, q, ok)
		}
		if ok && recordKey(n, s, q) != recordKey(name, stream, seq) {
			t.Errorf("%q %q %d has two readings", name, stream, seq)
		}
	})
}

// Whatever bytes are on the disk, decoding a value gives it or ErrCorrupt, and
// what was decoded is stored the same.
func FuzzCollectionDecode(f *testing.F) {
	f.Add([]byte(`{"name":"Ann","age":3}`))
	f.Add([]byte(`{"name":"A","name":"B"}`))
	f.Add([]byte(`{"age":1e400}`))
	f.Add([]byte("\xff"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := people.decode("k", raw)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("error %v", err)
			}
			return
		}
		again, err := encode(p)
		if err != nil {
			t.Fatalf("encode %+v: %v", p, err)
		}
		if q, err := people.decode("k", again); err != nil || q != p {
			t.Errorf("%+v came back as %+v, %v", p, q, err)
		}
	})
}

// A redo record is read as it was written, or not at all.
func FuzzRedo(f *testing.F) {
	f.Add(encodeRedo(overlay{"k": {val: []byte("v")}}))
	f.Add(encodeRedo(overlay{"k": {gone: true}, "l": {val: []byte{}, expires: 1 << 40}}))
	f.Add([]byte{0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		o, err := decodeRedo(raw)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("error %v", err)
			}
			return
		}
		again, err := decodeRedo(encodeRedo(o))
		same := func(a, b write) bool {
			return bytes.Equal(a.val, b.val) && a.expires == b.expires && a.gone == b.gone
		}
		if err != nil || !maps.EqualFunc(o, again, same) {
			t.Errorf("came back as %v, %v", again, err)
		}
	})
}

// The check of Badger's log reads damaged files only; it must end, allocate
// little and never find more in them than there is.
func FuzzLogCheck(f *testing.F) {
	f.Add(make([]byte, 64))
	f.Add([]byte("01234567890123456789\x80\x00\x13\x01\x00!badger!txn\x00\x00\x00\x00\x00\x00\x00\x019\x00\x00\x00\x00"))
	f.Add(append(make([]byte, 20), 0x40, 0, 0xff, 0xff, 3, 0xff, 0xff, 0xff, 3, 0))
	f.Fuzz(func(t *testing.T, raw []byte) {
		end, err := wholeEntries(bytes.NewReader(raw))
		if err != nil || end < logHeader || end > max(logHeader, int64(len(raw))) {
			t.Errorf("whole up to %d of %d, %v", end, len(raw), err)
		}
		n, err := endMarks(bytes.NewReader(raw))
		if err != nil || n > bytes.Count(raw, []byte(endMark)) {
			t.Errorf("%d marks, %v", n, err)
		}
	})
}

// No operations, in whatever order, bring the overlay and the database apart:
// the same program gives the same content in one update and in many.
func FuzzOneUpdateOrMany(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 64, 1, 128, 2})
	f.Add([]byte{1, 1, 1, 200, 65, 0, 255})
	one := open(f, Options{Log: slog.New(slog.DiscardHandler)})
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) > 64 {
			return
		}
		step := func(tx *Tx, space string, i int) error {
			op, key := program[i]>>6, space+string(rune('a'+program[i]&7))
			switch op {
			case 0, 1:
				return blobs.Put(tx, key, []byte{byte(i)})
			case 2:
				return blobs.Delete(tx, key)
			}
			_, err := events.Append(tx, key, []byte{byte(i)})
			return err
		}
		dump := func(space string) (out []byte) {
			view(t, one, func(tx *Tx) error {
				for k := range byte(8) {
					n, err := events.Len(tx, space+string(rune('a'+k)))
					if err != nil {
						return err
					}
					out = binary.AppendUvarint(out, n)
				}
				return blobs.Each(tx, space, func(k string, v []byte) error {
					out = append(append(out, k[1:]...), v...)
					return nil
				})
			})
			return out
		}
		update(t, one, func(tx *Tx) error { // both spaces begin empty
			for _, space := range []string{"1", "2"} {
				err := blobs.Each(tx, space, func(k string, _ []byte) error { return blobs.Delete(tx, k) })
				if err != nil {
					return err
				}
			}
			return nil
		})
		update(t, one, func(tx *Tx) error {
			for i := range program {
				if err := step(tx, "1", i); err != nil {
					return err
				}
			}
			return nil
		})
		for i := range program {
			update(t, one, func(tx *Tx) error { return step(tx, "2", i) })
		}
		if a, b := dump("1"), dump("2"); !bytes.Equal(a, b) {
			t.Errorf("one update: %x\nmany: %x", a, b)
		}
	})
}
