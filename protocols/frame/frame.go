// Package frame puts one length before each message of weft's short
// request-and-answer protocols: an unsigned LEB128 length (as in multiformats
// unsigned-varint, minimal form only), then that many bytes. The limit is
// checked before a byte is allocated.
package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// ErrFrame is wrapped when the other side broke the framing.
var ErrFrame = errors.New("bad frame")

// maxLength is the longest length prefix: five bytes hold 2^35.
const maxLength = 5

// Write sends one message in one write.
func Write(w io.Writer, msg []byte) error {
	b := binary.AppendUvarint(make([]byte, 0, maxLength+len(msg)), uint64(len(msg)))
	_, err := w.Write(append(b, msg...))
	return err
}

// Read receives one message of at most max bytes.
func Read(r io.Reader, max int) ([]byte, error) {
	n, err := length(r)
	if err != nil {
		return nil, err
	}
	if n > uint64(max) {
		return nil, fmt.Errorf("%w: %d bytes, the limit is %d", ErrFrame, n, max)
	}
	msg := make([]byte, n)
	if _, err := io.ReadFull(r, msg); err != nil {
		return nil, fmt.Errorf("%w: cut short: %w", ErrFrame, err)
	}
	return msg, nil
}

func length(r io.Reader) (uint64, error) {
	var b [maxLength]byte
	for i := range b {
		if _, err := io.ReadFull(r, b[i:i+1]); err != nil {
			return 0, err
		}
		if b[i] < 0x80 {
			n, used := binary.Uvarint(b[:i+1])
			if used != i+1 || (i > 0 && b[i] == 0) {
				return 0, fmt.Errorf("%w: length not minimal", ErrFrame)
			}
			return n, nil
		}
	}
	return 0, fmt.Errorf("%w: length prefix too long", ErrFrame)
}
