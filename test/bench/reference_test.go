//go:build linux

package bench

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/chacha20poly1305"
	"golang.org/x/sys/unix"

	"github.com/weftmesh/weft/store"
)

// recordSize is about a log record's.
const recordSize = 400

// BenchmarkReference is what the machine takes for the things that a call is
// made of.
func BenchmarkReference(b *testing.B) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	msg := text[:recordSize]
	sig := ed25519.Sign(key, msg)
	aead, err := chacha20poly1305.New(make([]byte, chacha20poly1305.KeySize))
	if err != nil {
		b.Fatal(err)
	}
	sealed := make([]byte, 0, 64<<10+aead.Overhead())
	nonce := make([]byte, aead.NonceSize())
	quick := func(do func()) func(context.Context) error {
		return func(context.Context) error { do(); return nil }
	}
	race{title: "Reference: what a call is made of", block: 20}.run(b, []contender{
		{name: "append 400 B and fsync", op: appendSync(b, b.TempDir())},
		{name: "the same in memory", op: appendSync(b, memoryDir(b))},
		{name: "append 400 B where there is room, and fdatasync", op: appendInRoom(b, b.TempDir())},
		{name: "store.Update of 400 B", op: update(b, b.TempDir(), recordSize)},
		{name: "store.Update of 400 B in memory", op: update(b, memoryDir(b), recordSize)},
		{name: "store.Update of 6 KiB", op: update(b, b.TempDir(), 6<<10)},
		{name: "ed25519 sign", op: quick(func() { ed25519.Sign(key, msg) })},
		{name: "ed25519 verify", op: func(context.Context) error {
			if !ed25519.Verify(pub, msg, sig) {
				return errors.New("a good signature was refused")
			}
			return nil
		}},
		{name: "SHA-256 of 4 KiB", op: quick(func() { sha256.Sum256(text[:small]) })},
		{name: "SHA-256 of 1 MiB", op: quick(func() { sha256.Sum256(text) })},
		{name: "ChaCha20-Poly1305 of 64 KiB", op: quick(func() { aead.Seal(sealed, nonce, text[:middle], nil) })},
		{name: "open, read 4 KiB, close in os.Root", op: openRead(b)},
	})
}

func appendSync(tb testing.TB, dir string) func(context.Context) error {
	f, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { f.Close() })
	return func(context.Context) error {
		if _, err := f.Write(text[:recordSize]); err != nil {
			return err
		}
		return f.Sync()
	}
}

// appendInRoom is what a log that is laid out ahead would cost: no size and no
// block changes, so the file system has nothing of its own to write.
func appendInRoom(tb testing.TB, dir string) func(context.Context) error {
	f, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { f.Close() })
	const room = 8 << 20
	if _, err := f.Write(make([]byte, room)); err != nil {
		tb.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		tb.Fatal(err)
	}
	at := int64(0)
	return func(context.Context) error {
		if _, err := f.WriteAt(text[:recordSize], at%(room-recordSize)); err != nil {
			return err
		}
		at += recordSize
		return unix.Fdatasync(int(f.Fd()))
	}
}

var benchLog = store.NewLog("bench")

func update(tb testing.TB, dir string, size int) func(context.Context) error {
	db := openStore(tb, filepath.Join(dir, "store"))
	return func(ctx context.Context) error {
		return db.Update(ctx, func(tx *store.Tx) error {
			_, err := benchLog.Append(tx, "x", text[:size])
			return err
		})
	}
}

func openRead(tb testing.TB) func(context.Context) error {
	dir := plant(tb, tb.TempDir(), nil)
	root, err := os.OpenRoot(dir)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { root.Close() })
	return func(context.Context) error {
		got, err := root.ReadFile(readNames[small])
		if err != nil {
			return err
		}
		return same(got, small)
	}
}
