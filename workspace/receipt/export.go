package receipt

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/weftmesh/weft/protocols/strict"
	"github.com/weftmesh/weft/workspace/sessionlog"
)

// exportFormat names the export file's format and version.
const exportFormat = "weft session log v1"

// exportHeader is the first line of an export. The records follow, one a line,
// byte for byte as they were hashed.
type exportHeader struct {
	Format  string `json:"format"`
	Session string `json:"session"`
	Records uint64 `json:"records"`
}

// exportBatch is how many records are read at once.
const exportBatch = 256

// Export writes the log's records as JSON lines.
func Export(w io.Writer, log *sessionlog.Log) error {
	size := log.Head().Size
	header, err := strict.Marshal(exportHeader{exportFormat, log.Session(), size})
	if err != nil {
		return fmt.Errorf("encode export: %w", err)
	}
	b := bufio.NewWriter(w)
	line := func(data []byte) {
		b.Write(data) // the first error sticks and comes back from Flush
		b.WriteByte('\n')
	}
	line(header)
	for from := uint64(0); from < size; {
		leaves, err := log.Leaves(from, int(min(exportBatch, size-from)))
		if err != nil {
			return err
		}
		for _, leaf := range leaves {
			line(leaf)
		}
		from += uint64(len(leaves))
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write export: %w", err)
	}
	return nil
}

// VerifyExport checks an exported log against a receipt, offline: the receipt
// as Verify does, every record and the order of all, that they hash to the
// receipt's root, and every number of the receipt, counted again.
func VerifyExport(export io.Reader, rawReceipt []byte) (Verdict, error) {
	r, v, err := verify(rawReceipt)
	if err != nil {
		return Verdict{}, err
	}
	if err := r.matchesExport(export); err != nil {
		return Verdict{}, err
	}
	v.LogVerified = true
	return v, nil
}

// matchesExport is VerifyExport without the receipt's own verification.
func (r Receipt) matchesExport(export io.Reader) error {
	b := bufio.NewReaderSize(export, sessionlog.MaxRecord+1)
	line, err := readLine(b)
	if err != nil {
		return err
	}
	var h exportHeader
	if err := strict.Unmarshal(line, sessionlog.MaxRecord, &h); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	if again, err := strict.Marshal(h); err != nil || string(again) != string(line) || h.Format != exportFormat {
		return fmt.Errorf("%w: not an export of a session log", strict.ErrInput)
	}
	if h.Session != r.Session || h.Records != r.Records {
		return fmt.Errorf("%w: an export of %d records of session %.64s", ErrMismatch, h.Records, h.Session)
	}
	replay := sessionlog.NewReplay(h.Session)
	for range h.Records { // bounded: equal to the receipt's, which has a limit
		line, err := readLine(b)
		if err != nil {
			return err
		}
		if _, err := replay.Add(line); err != nil {
			return err
		}
	}
	if _, err := b.ReadByte(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: data after the last record", strict.ErrInput)
	}
	return r.matches(replay.Totals(), replay.Head())
}

// readLine reads one line of at most sessionlog.MaxRecord bytes. The result is
// valid until the next call.
func readLine(b *bufio.Reader) ([]byte, error) {
	line, err := b.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, fmt.Errorf("%w: a line of the export is too long", strict.ErrInput)
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%w: the export is cut off", strict.ErrInput)
	case err != nil:
		return nil, fmt.Errorf("read export: %w", err)
	}
	return line[:len(line)-1], nil
}

// VerifyLog checks the leaves of a log against a receipt, as VerifyExport does
// for a file.
func VerifyLog(leaves [][]byte, rawReceipt []byte) (Verdict, error) {
	r, v, err := verify(rawReceipt)
	if err != nil {
		return Verdict{}, err
	}
	if uint64(len(leaves)) != r.Records {
		return Verdict{}, fmt.Errorf("%w: %d records, the receipt says %d", ErrMismatch, len(leaves), r.Records)
	}
	replay := sessionlog.NewReplay(r.Session)
	for _, leaf := range leaves {
		if _, err := replay.Add(leaf); err != nil {
			return Verdict{}, err
		}
	}
	if err := r.matches(replay.Totals(), replay.Head()); err != nil {
		return Verdict{}, err
	}
	v.LogVerified = true
	return v, nil
}
