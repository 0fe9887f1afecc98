package sessionlog

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// proofHeader is the first line of a C2SP tlog-proof.
const proofHeader = "c2sp.org/tlog-proof@v1"

// maxProof bounds a proof: 64 hashes at most and a checkpoint.
const maxProof = 64*45 + maxCheckpoint + 128

// ErrProof is wrapped when a proof doesn't verify.
var ErrProof = errors.New("bad inclusion proof")

// leafHash is RFC 6962's hash of a leaf.
func leafHash(leaf []byte) tlog.Hash { return tlog.RecordHash(leaf) }

// formatProof spells a C2SP tlog-proof@v1 without extra data.
func formatProof(seq uint64, path tlog.RecordProof, checkpoint []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\nindex %d\n", proofHeader, seq)
	for _, h := range path {
		b.WriteString(h.String())
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	b.Write(checkpoint)
	return b.Bytes()
}

// CheckProof verifies a C2SP tlog-proof@v1: the certificates, the checkpoint,
// and that leaf is the record at the proof's index. It returns the record and
// the checkpoint. Only the exact spelling of Log.Prove is accepted.
func CheckProof(proof, leaf []byte, p Parties) (Record, Checkpoint, error) {
	bad := func(format string, args ...any) (Record, Checkpoint, error) {
		return Record{}, Checkpoint{}, fmt.Errorf("%w: %s", ErrProof, fmt.Sprintf(format, args...))
	}
	if len(proof) > maxProof {
		return bad("%d bytes, the limit is %d", len(proof), maxProof)
	}
	head, checkpoint, found := bytes.Cut(proof, []byte("\n\n"))
	if !found {
		return bad("no checkpoint")
	}
	lines := strings.Split(string(head), "\n")
	if len(lines) < 2 || lines[0] != proofHeader {
		return bad("not a %s", proofHeader)
	}
	index, ok := strings.CutPrefix(lines[1], "index ")
	seq, err := strconv.ParseUint(index, 10, 64)
	if !ok || err != nil || seq >= MaxRecords {
		return bad("index")
	}
	var path tlog.RecordProof
	for _, line := range lines[2:] {
		h, err := tlog.ParseHash(line)
		if err != nil {
			return bad("hash %d", len(path))
		}
		path = append(path, h)
	}
	if !bytes.Equal(formatProof(seq, path, checkpoint), proof) {
		return bad("not in the canonical spelling")
	}
	c, err := VerifyCheckpoint(checkpoint, p)
	if err != nil {
		return Record{}, Checkpoint{}, err
	}
	if seq >= c.Head.Size {
		return bad("record %d of a log of %d", seq, c.Head.Size)
	}
	if err := tlog.CheckRecord(path, int64(c.Head.Size), tlog.Hash(c.Head.Root), int64(seq), leafHash(leaf)); err != nil {
		return bad("the record is not in the log")
	}
	r, err := Decode(leaf)
	if err != nil {
		return Record{}, Checkpoint{}, err
	}
	if r.Seq != seq || r.Session != p.Session {
		return bad("the record says it is another")
	}
	return r, c, nil
}
