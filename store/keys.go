package store

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// Every key is: space, name, 0x00, then what the space says. A name has no
// NUL, so one name's keys are never a prefix of another's.
//
//	c name 0 key                collections
//	l name 0 stream 0 seq(8)    log records, sequence numbers big endian
//	n name 0 stream             the number of records of a stream
//	g name 0 id                 replay guards
//	m word                      the store's own records
//	z number                    padding that makes Badger rotate its memtable
const (
	spaceCollection = 'c'
	spaceLog        = 'l'
	spaceLen        = 'n'
	spaceGuard      = 'g'
	spaceMeta       = 'm'
	spacePad        = 'z'
)

// Limits of what one name, key and value may be. A value is at most one
// megabyte so that one call's content fits and a listing stays bounded.
const (
	maxName  = 64
	maxKey   = 1024
	maxValue = 1<<20 + 64<<10 // 1 MiB of content and the JSON around it
)

// validName reports whether s can name a collection, a log or a guard:
// 1 to 64 of a-z, 0-9, '.', '_', '/', '-'.
func validName(s string) bool {
	if s == "" || len(s) > maxName {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789._/-") == ""
}

// spacePrefix is what all keys of a name start with.
func spacePrefix(space byte, name string) string {
	return string(rune(space)) + name + "\x00"
}

// checkKey refuses keys that are empty or too long.
func checkKey(what, key string) error {
	if key == "" || len(key) > maxKey {
		return fmt.Errorf("%w: %s of %d bytes, allowed are 1 to %d", ErrTooLarge, what, len(key), maxKey)
	}
	return nil
}

// checkStream refuses stream names that could run into the sequence number.
func checkStream(s string) error {
	if strings.IndexByte(s, 0) >= 0 {
		return fmt.Errorf("stream name %q has a NUL", s)
	}
	return checkKey("stream name", s)
}

// recordKey is the key of one log record.
func recordKey(name, stream string, seq uint64) string {
	b := make([]byte, 0, len(name)+len(stream)+11)
	b = append(b, spaceLog)
	b = append(b, name...)
	b = append(b, 0)
	b = append(b, stream...)
	b = append(b, 0)
	return string(binary.BigEndian.AppendUint64(b, seq))
}

// parseRecordKey is the inverse of recordKey.
func parseRecordKey(key string) (name, stream string, seq uint64, ok bool) {
	if len(key) < 11 || key[0] != spaceLog || key[len(key)-9] != 0 {
		return "", "", 0, false
	}
	seq = binary.BigEndian.Uint64([]byte(key[len(key)-8:]))
	name, stream, ok = strings.Cut(key[1:len(key)-9], "\x00")
	if !ok || !validName(name) || checkStream(stream) != nil {
		return "", "", 0, false
	}
	return name, stream, seq, true
}
