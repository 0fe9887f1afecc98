package identity

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrKeyFile is wrapped when a key file can't be used as it is. It is never
// repaired or replaced: a key that is lost is an identity that is lost.
var ErrKeyFile = errors.New("unusable key file")

// A key file is one PKCS #8 "PRIVATE KEY" block in PEM (RFC 8410), which other
// tools can read (openssl pkey -in FILE).
const (
	pemType    = "PRIVATE KEY"
	maxKeyFile = 1 << 10 // such a block takes 119 bytes
)

// LoadOrCreate reads the key at path, or makes one if there is no file. The
// new file appears whole or not at all, is readable by its owner only (0600)
// and never replaces another; its folder is made with 0700. Of several
// processes that create at once, all get the one key that won.
func LoadOrCreate(path string) (*Key, error) {
	k, err := Load(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	// A file that is there now was made meanwhile by another process.
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return nil, fmt.Errorf("%w: %s is a link to nothing; remove the link", ErrKeyFile, path)
	}
	if err := create(path, Generate()); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("create key file %s: %w", path, err)
	}
	return Load(path)
}

// Load reads the key at path. The error wraps fs.ErrNotExist if there is no
// file, and ErrKeyFile with the next step if the file is malformed, not a
// regular file, of another user, or open to others.
func Load(path string) (*Key, error) {
	f, err := openKeyFile(path)
	if err != nil {
		return nil, fmt.Errorf("open key file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read key file: %w", err)
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w: %s is not a regular file", ErrKeyFile, path)
	case info.Size() > maxKeyFile:
		return nil, fmt.Errorf("%w: %s has %d bytes, a key has about 119; restore it from a backup", ErrKeyFile, path, info.Size())
	}
	if err := private(path, info); err != nil {
		return nil, err
	}
	if err := guarded(filepath.Dir(path)); err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return nil, fmt.Errorf("read key file %s: %w", path, err)
	}
	k, err := parseKeyFile(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w; restore it from a backup, or move it away to get a new identity", ErrKeyFile, path, err)
	}
	return k, nil
}

// formatKeyFile is the one spelling of a key.
func formatKeyFile(k *Key) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.priv)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der}), nil
}

// parseKeyFile reads formatKeyFile's output and nothing else, so that a file
// that was damaged and still decodes is noticed. No error quotes the content.
func parseKeyFile(raw []byte) (*Key, error) {
	block, _ := pem.Decode(raw)
	if block == nil || block.Type != pemType {
		return nil, errors.New("it is not a PEM private key")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("it is not a PKCS #8 private key")
	}
	priv, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, errors.New("it is not an ed25519 key")
	}
	k, err := FromSeed(priv.Seed())
	if err != nil {
		return nil, err
	}
	if again, err := formatKeyFile(k); err != nil || !bytes.Equal(again, raw) {
		return nil, errors.New("it holds more than one plain key")
	}
	return k, nil
}

// create writes a key file that must not exist. It writes a temporary file and
// links it to its name, since a link never replaces anything and rename does.
func create(path string, k *Key) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := guarded(dir); err != nil {
		return err
	}
	raw, err := formatKeyFile(k)
	if err != nil {
		return err
	}
	var suffix [8]byte
	rand.Read(suffix[:])
	tmp := path + ".new-" + hex.EncodeToString(suffix[:])
	if err := writeSynced(tmp, raw); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	if err := errors.Join(os.Link(tmp, path), os.Remove(tmp)); err != nil {
		return err
	}
	if err := syncDir(dir); err != nil {
		return err
	}
	// The folder may be new too. If its own parent can't be opened, the file
	// system is not ours to sync; the key is there all the same.
	_ = syncDir(filepath.Dir(dir))
	return nil
}

func writeSynced(path string, raw []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	return errors.Join(err, f.Sync(), f.Close())
}
