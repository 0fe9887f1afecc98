//go:build unix

package identity

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func TestLoadOrCreate(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "a", "home")
	path := filepath.Join(home, "key.pem")
	if _, err := Load(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Load without a file: %v", err)
	}
	k, err := LoadOrCreate(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{path: 0o600, home: fs.ModeDir | 0o700, filepath.Dir(home): fs.ModeDir | 0o700} {
		info, err := os.Stat(name)
		if err != nil || info.Mode() != want {
			t.Errorf("%s has mode %v, want %v (%v)", name, info.Mode(), want, err)
		}
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		again, err := LoadOrCreate(path)
		if err != nil || again.Public() != k.Public() {
			t.Errorf("again: %v, %v", again, err)
		}
		if again, err = Load(path); err != nil || !again.Private().Equal(k.Private()) {
			t.Errorf("Load: %v, %v", again, err)
		}
	}
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(before, after) {
		t.Error("the file was written again")
	}
	only(t, home, "key.pem")
}

// only checks that a folder has these files and no leftovers.
func only(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(names, " ") {
		t.Errorf("%s has %v, want %v", dir, got, names)
	}
}

// TestCreateRace: of many that start at once, all get one key.
func TestCreateRace(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "home")
	path := filepath.Join(home, "key.pem")
	keys := make([]PublicKey, 24)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range keys {
		wg.Go(func() {
			<-start
			k, err := LoadOrCreate(path)
			if err != nil {
				t.Error(err)
				return
			}
			keys[i] = k.Public()
		})
	}
	close(start)
	wg.Wait()
	for _, k := range keys {
		if k != keys[0] || k.IsZero() {
			t.Fatal("two keys were made")
		}
	}
	only(t, home, "key.pem")
}

// goldenKey is the key file of the seed 01 01 01 ..., as openssl reads it.
func goldenKey(t testing.TB) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestKeyFileGolden(t *testing.T) {
	t.Parallel()
	k, err := parseKeyFile(goldenKey(t))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(k.Private().Seed(), bytes.Repeat([]byte{1}, 32)) {
		t.Error("another key")
	}
}

// TestMalformedKeyFile: the file is refused with the next step, shows nothing
// of its content, and stays as it is.
func TestMalformedKeyFile(t *testing.T) {
	t.Parallel()
	good := goldenKey(t)
	der := func(typ string, der []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: der})
	}
	block, _ := pem.Decode(good)
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ecDER, err := x509.MarshalPKCS8PrivateKey(ec)
	if err != nil {
		t.Fatal(err)
	}
	for name, raw := range map[string][]byte{
		"empty":                       {},
		"text":                        []byte("hello\n"),
		"cut off":                     good[:len(good)-30],
		"last newline lost":           good[:len(good)-1],
		"two keys":                    append(bytes.Clone(good), good...),
		"text behind":                 append(bytes.Clone(good), "x\n"...),
		"text in front":               append([]byte("x\n"), good...),
		"CRLF":                        bytes.ReplaceAll(good, []byte("\n"), []byte("\r\n")),
		"another PEM type":            der("PUBLIC KEY", block.Bytes),
		"an EC key":                   der("PRIVATE KEY", ecDER),
		"an empty block":              der("PRIVATE KEY", nil),
		"bytes behind the DER":        der("PRIVATE KEY", append(bytes.Clone(block.Bytes), 0)),
		"a seed cut":                  der("PRIVATE KEY", block.Bytes[:len(block.Bytes)-1]),
		"a PEM header":                pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Headers: map[string]string{"a": "b"}, Bytes: block.Bytes}),
		"huge":                        bytes.Repeat([]byte("x"), 1<<20),
		"zeros, as after a power cut": make([]byte, 119),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "key.pem")
			if err := os.WriteFile(path, raw, 0o600); err != nil {
				t.Fatal(err)
			}
			for what, open := range map[string]func(string) (*Key, error){"Load": Load, "LoadOrCreate": LoadOrCreate} {
				k, err := open(path)
				if k != nil || !errors.Is(err, ErrKeyFile) {
					t.Fatalf("%s: %v, %v", what, k, err)
				}
				if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "backup") {
					t.Errorf("%s: no next step: %v", what, err)
				}
				if strings.Contains(err.Error(), "AQEB") || len(err.Error()) > 400 {
					t.Errorf("%s: the error shows content: %v", what, err)
				}
			}
			after, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(after, raw) {
				t.Error("the file was changed")
			}
			only(t, filepath.Dir(path), "key.pem")
		})
	}
}

// TestKeyFileOfOthers: files and folders that others can read or change.
func TestKeyFileOfOthers(t *testing.T) {
	t.Parallel()
	good := goldenKey(t)
	write := func(t *testing.T, path string) {
		if err := os.WriteFile(path, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	asRoot := func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("only root can give a file away")
		}
	}
	for name, c := range map[string]struct {
		prepare func(t *testing.T, path string)
		says    string
	}{
		"group can read":   {func(t *testing.T, p string) { write(t, p); must(t, os.Chmod(p, 0o640)) }, "chmod 600"},
		"world can read":   {func(t *testing.T, p string) { write(t, p); must(t, os.Chmod(p, 0o604)) }, "chmod 600"},
		"group can write":  {func(t *testing.T, p string) { write(t, p); must(t, os.Chmod(p, 0o620)) }, "chmod 600"},
		"of another user":  {func(t *testing.T, p string) { asRoot(t); write(t, p); must(t, os.Chown(p, 65534, 65534)) }, "belongs to user 65534"},
		"folder is public": {func(t *testing.T, p string) { write(t, p); must(t, os.Chmod(filepath.Dir(p), 0o777)) }, "chmod 700"},
		"folder of group":  {func(t *testing.T, p string) { write(t, p); must(t, os.Chmod(filepath.Dir(p), 0o770)) }, "chmod 700"},
		"folder of another": {func(t *testing.T, p string) {
			asRoot(t)
			write(t, p)
			must(t, os.Chown(filepath.Dir(p), 65534, 65534))
		}, "belongs to user 65534"},
		"symbolic link": {func(t *testing.T, p string) {
			real := filepath.Join(t.TempDir(), "real")
			write(t, real)
			must(t, os.Symlink(real, p))
		}, "symbolic link"},
		"link to nothing": {func(t *testing.T, p string) { must(t, os.Symlink(filepath.Join(t.TempDir(), "none"), p)) }, "link"},
		"a folder":        {func(t *testing.T, p string) { must(t, os.Mkdir(p, 0o700)) }, "not a regular file"},
		"a FIFO":          {func(t *testing.T, p string) { must(t, syscall.Mkfifo(p, 0o600)) }, "not a regular file"},
		"new, in a public folder": {func(t *testing.T, p string) {
			must(t, os.Chmod(filepath.Dir(p), 0o777))
		}, "chmod 700"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "home")
			must(t, os.Mkdir(dir, 0o700))
			path := filepath.Join(dir, "key.pem")
			c.prepare(t, path)
			k, err := LoadOrCreate(path)
			if k != nil || !errors.Is(err, ErrKeyFile) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, %v; want an error that says %q", k, err, c.says)
			}
			if err != nil && strings.Contains(err.Error(), "AQEB") {
				t.Errorf("the error shows the key: %v", err)
			}
		})
	}
}

// TestCreateFails: where nothing can be made, nothing is left behind.
func TestCreateFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadOrCreate(filepath.Join(file, "key.pem")); err == nil || !strings.Contains(err.Error(), "key file") {
		t.Errorf("below a file: %v", err)
	}
	only(t, dir, "file")
}

// TestCreateKeepsWinner: a file that appears in the last moment is kept.
func TestCreateKeepsWinner(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(path, goldenKey(t), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := create(path, Generate()); !errors.Is(err, fs.ErrExist) {
		t.Errorf("create over a file: %v", err)
	}
	k, err := Load(path)
	if err != nil || !bytes.Equal(k.Private().Seed(), bytes.Repeat([]byte{1}, 32)) {
		t.Errorf("the key was replaced: %v", err)
	}
	only(t, filepath.Dir(path), "key.pem")
}

// FuzzParseKeyFile: what parses has one spelling.
func FuzzParseKeyFile(f *testing.F) {
	f.Add(goldenKey(f))
	f.Fuzz(func(t *testing.T, raw []byte) {
		k, err := parseKeyFile(raw)
		if err != nil {
			return
		}
		if again, err := formatKeyFile(k); err != nil || !bytes.Equal(again, raw) {
			t.Fatalf("two spellings: %q", raw)
		}
	})
}
