package sessionlog

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"
)

// TestCommitByHand makes a commitment from HMAC and SHA-256 alone.
func TestCommitByHand(t *testing.T) {
	t.Parallel()
	var k Key
	copy(k[:], "0123456789abcdef0123456789abcdef")
	mac := hmac.New(sha256.New, k[:])
	mac.Write([]byte("weft-log/v1 salt path 7\x01")) // HKDF-Expand's first block
	salt := mac.Sum(nil)
	sum := sha256.Sum256(fmt.Appendf(nil, "weft-log/v1 commit\x00path\x00%sapp/main.go", salt))
	if got, want := k.Commit("path", 7, []byte("app/main.go")), hex.EncodeToString(sum[:]); got != want {
		t.Errorf("commitment %s, want %s", got, want)
	}
	// Golden: a change of the format breaks every stored log.
	if got, want := k.Commit("path", 7, []byte("app/main.go")), "718debe1"; got[:8] != want {
		t.Errorf("commitment starts %s, golden %s", got[:8], want)
	}
}

// TestCommitSeparates: no two of field, record, value and key share a
// commitment or a salt, so equal paths don't show as equal.
func TestCommitSeparates(t *testing.T) {
	t.Parallel()
	k, other := NewKey(), NewKey()
	seen := map[string]string{}
	note := func(name, c string) {
		if was, twice := seen[c]; twice {
			t.Errorf("%s and %s have one commitment", was, name)
		}
		seen[c] = name
	}
	for _, f := range Fields() {
		for seq := range uint64(3) {
			for _, v := range []string{"", "a", "app/main.go"} {
				note(fmt.Sprintf("%s %d %q", f, seq, v), k.Commit(string(f), seq, []byte(v)))
			}
			note(fmt.Sprintf("salt %s %d", f, seq), k.Salt(f, seq).Hex())
		}
	}
	note("other key", other.Commit("path", 0, []byte("a")))
	if !k.Salt("path", 1).Opens("path", []byte("a"), k.Commit("path", 1, []byte("a"))) {
		t.Error("a salt does not open its own commitment")
	}
	if k.Salt("path", 1).Opens("path", []byte("b"), k.Commit("path", 1, []byte("a"))) {
		t.Error("a salt opens another value")
	}
	if k.Salt("path", 1).Opens("path", nil, "") {
		t.Error("a salt opens an absent commitment")
	}
}

func TestKeySpellings(t *testing.T) {
	t.Parallel()
	k := NewKey()
	if got, err := ParseKey(k.Hex()); err != nil || got != k {
		t.Errorf("ParseKey(Hex) = %v, %v", got, err)
	}
	for _, f := range []string{"%v", "%s", "%+v", "%#v"} {
		if s := fmt.Sprintf(f, k); s != "session log key" {
			t.Errorf("%s prints %q", f, s)
		}
	}
	for name, s := range map[string]string{"empty": "", "short": "ab", "upper": fmt.Sprintf("%X", k[:]), "not hex": string(make([]byte, 64))} {
		if _, err := ParseKey(s); err == nil && s != k.Hex() {
			t.Errorf("%s: accepted", name)
		}
	}
}
