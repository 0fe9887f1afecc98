package workspace

import (
	"crypto/sha256"
	"encoding/hex"
)

// CallDigest names one signed call: the value that the log's request
// commitment hides, and what tells a repeat from a forgery.
func CallDigest(header, body, sig []byte) string {
	h := sha256.New()
	for _, part := range [][]byte{header, body, sig} {
		sum := sha256.Sum256(part)
		h.Write(sum[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}
