package store

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
)

// Layout of Badger's memtable log (memtable.go, structs.go, v4.9.6): 20 bytes
// of key id and IV, then entries of
// meta(1) user meta(1) uvarint(key len) uvarint(value len) uvarint(expiry) key
// value crc32c(4, big endian, of all before). A transaction ends with an entry
// whose meta has bit 7 and whose key is endMark and 8 bytes.
const (
	logHeader = 20
	endMark   = "!badger!txn"
	maxEntry  = maxRedo + 1<<16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checkLogs refuses logs that lost a transaction in the middle. Badger stops
// reading a log at the first entry that is not whole, and cuts off the rest:
// right after a crash, since only the last transaction can be unfinished (each
// is synced before the next begins), and a silent loss after any other damage.
// So whole transactions that follow the damage give it away. One is allowed:
// the unfinished one, whose pages may reach the disk in any order.
func checkLogs(dir string, encrypted bool) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.mem"))
	if err != nil {
		return err
	}
	for _, name := range names {
		fi, err := os.Stat(name)
		if err != nil {
			return err
		}
		if fi.Size() == 0 {
			// Made and not yet sized when the process died: nothing is in it,
			// and Badger takes it for an error.
			if err := os.Remove(name); err != nil {
				return err
			}
			continue
		}
		if encrypted {
			continue // the marks can't be seen
		}
		if err := checkLog(name); err != nil {
			return err
		}
	}
	return nil
}

func checkLog(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	end, err := wholeEntries(f)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	n, err := endMarks(io.NewSectionReader(f, end, 1<<40))
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if n > 1 {
		return fmt.Errorf("%w: %s is damaged at byte %d and %d later transactions would be lost. Restore the folder from a backup", ErrCorrupt, name, end, n-1)
	}
	return nil
}

// wholeEntries returns where the first entry that is not whole begins.
func wholeEntries(f io.ReaderAt) (int64, error) {
	r := bufio.NewReaderSize(io.NewSectionReader(f, logHeader, 1<<40), 64<<10)
	off := int64(logHeader)
	var buf []byte
	for {
		head, err := r.Peek(32)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		n, size, ok := entryHead(head)
		if !ok {
			return off, nil
		}
		if cap(buf) < n+size+4 {
			buf = make([]byte, n+size+4)
		}
		buf = buf[:n+size+4]
		if _, err := io.ReadFull(r, buf); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return off, nil
			}
			return 0, err
		}
		if !entryWhole(buf) {
			return off, nil
		}
		off += int64(len(buf))
	}
}

// entryHead reads an entry's header: its length, and that of key and value.
func entryHead(b []byte) (head, size int, ok bool) {
	if len(b) < 5 {
		return 0, 0, false
	}
	head = 2
	var v [3]uint64
	for i := range v {
		x, n := binary.Uvarint(b[head:])
		if n <= 0 {
			return 0, 0, false
		}
		v[i] = x
		head += n
	}
	if v[0] == 0 || v[0] > 1<<16 || v[1] > maxEntry {
		return 0, 0, false
	}
	return head, int(v[0] + v[1]), true
}

// entryWhole checks an entry's checksum.
func entryWhole(b []byte) bool {
	n := len(b) - 4
	return n > 0 && crc32.Checksum(b[:n], castagnoli) == binary.BigEndian.Uint32(b[n:])
}

// endMarks counts the whole end-of-transaction entries in r.
func endMarks(r io.Reader) (int, error) {
	// An end entry is 5 bytes of header, 19 of key, at most 20 digits, 4 of
	// checksum; window keeps that much around each mark.
	const before, after = 5, 19 + 20 + 4
	buf := make([]byte, 0, 64<<10)
	n := 0
	for {
		read, err := io.ReadFull(r, buf[len(buf):cap(buf)])
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return 0, err
		}
		buf = buf[:len(buf)+read]
		from := 0
		for {
			i := bytes.Index(buf[from:], []byte(endMark))
			if i < 0 {
				break
			}
			at := from + i
			if len(buf)-at < after && !last {
				break // look again with what follows
			}
			from = at + 1
			if at < before {
				continue
			}
			e := buf[at-before:]
			if head, size, ok := entryHead(e); ok && head == before && e[0]&0x80 != 0 && len(e) >= head+size+4 && entryWhole(e[:head+size+4]) {
				n++
			}
		}
		if last {
			return n, nil
		}
		keep := min(len(buf)-from, before+after+len(endMark))
		buf = buf[:copy(buf, buf[len(buf)-keep:])]
	}
}
