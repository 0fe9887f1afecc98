package frame

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	for name, in := range map[string][]byte{
		"over the limit":       {0x05, 1, 2, 3, 4, 5},
		"cut short":            {0x03, 1},
		"length not minimal":   {0x81, 0x00},
		"length never ends":    {0x80, 0x80, 0x80, 0x80, 0x80, 0x01},
		"huge before allocate": {0xff, 0xff, 0xff, 0xff, 0x7f},
	} {
		if _, err := Read(bytes.NewReader(in), 4); !errors.Is(err, ErrFrame) {
			t.Errorf("%s: got %v, want ErrFrame", name, err)
		}
	}
	if _, err := Read(bytes.NewReader(nil), 4); !errors.Is(err, io.EOF) {
		t.Errorf("empty stream: got %v, want EOF", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte{0})
	f.Add([]byte{3, 1, 2, 3})
	f.Add([]byte{0x80, 0x01})
	f.Fuzz(func(t *testing.T, in []byte) {
		msg, err := Read(bytes.NewReader(in), 1<<10)
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := Write(&out, msg); err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(in, out.Bytes()) {
			t.Fatalf("one message, two encodings: % x and % x", in, out.Bytes())
		}
	})
}
