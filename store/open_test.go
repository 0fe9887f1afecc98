package store

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tryOpen opens and closes a store, for its error.
func tryOpen(o Options) error {
	o.Log = slog.New(slog.DiscardHandler)
	db, err := Open(o)
	if err != nil {
		return err
	}
	return db.Close()
}

func TestOpenMakesAPrivateFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	open(t, Options{Dir: dir})
	fi, err := os.Stat(dir)
	if err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
}

func TestOpenTwiceInOneProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := open(t, Options{Dir: dir})
	err := tryOpen(Options{Dir: dir})
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "this process") {
		t.Errorf("got %v", err)
	}
	update(t, db, func(tx *Tx) error { return blobs.Put(tx, "k", nil) }) // and did no harm
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := tryOpen(Options{Dir: dir}); err != nil {
		t.Errorf("after close: %v", err)
	}
}

func TestOpenTwiceInTwoProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd, _, release := start(t, "hold", dir)
	err := tryOpen(Options{Dir: dir})
	if want := fmt.Sprintf("process %d ", cmd.Process.Pid); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q in it", err, want)
	}
	release()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := tryOpen(Options{Dir: dir}); err != nil {
		t.Errorf("after the other process: %v", err)
	}
}

func TestOpenAfterTheHolderWasKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd, _, _ := start(t, "hold", dir)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err := tryOpen(Options{Dir: dir}); err != nil {
		t.Error(err)
	}
}

func TestOpenRefusesForeignFolders(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		file, text string
		want       error
	}{
		"a document":              {"letter.txt", "Dear", ErrForeign},
		"another badger":          {"MANIFEST", "Bdgr", ErrForeign},
		"another marker":          {markerFile, `{"weft":"cache","schema":1,"made":true}`, ErrForeign},
		"no JSON":                 {markerFile, "hello", ErrForeign},
		"unknown member":          {markerFile, `{"weft":"store","schema":1,"made":true,"x":1}`, ErrForeign},
		"no schema":               {markerFile, `{"weft":"store","schema":0,"made":true}`, ErrForeign},
		"huge marker":             {markerFile, `{"weft":"store` + strings.Repeat(" ", 1<<20), ErrForeign},
		"newer":                   {markerFile, `{"weft":"store","schema":2,"made":true}`, ErrNewerSchema},
		"marker without database": {markerFile, `{"weft":"store","schema":1,"made":true}`, ErrCorrupt},
	}
	for name, tt := range tests {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, tt.file), []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := tryOpen(Options{Dir: dir}); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
		got, err := os.ReadFile(filepath.Join(dir, tt.file))
		if err != nil || string(got) != tt.text {
			t.Errorf("%s: the file was touched: %v", name, err)
		}
		if errors.Is(tt.want, ErrForeign) {
			if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
				t.Errorf("%s: %d files left, %v", name, len(left), err)
			}
		}
	}
}

func TestOpenRefusesALostManifest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := open(t, Options{Dir: dir})
	update(t, db, func(tx *Tx) error { return blobs.Put(tx, "k", nil) })
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "MANIFEST")); err != nil {
		t.Fatal(err)
	}
	if err := tryOpen(Options{Dir: dir}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Errorf("the tables are gone: %v", err)
	}
}

func TestOpenUnreadable(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		// root reads everything; a file in the folder's place fails for all.
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := tryOpen(Options{Dir: path}); err == nil || errors.Is(err, ErrCorrupt) {
			t.Errorf("got %v", err)
		}
		return
	}
	dir := t.TempDir()
	if err := tryOpen(Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, markerFile), 0); err != nil {
		t.Fatal(err)
	}
	if err := tryOpen(Options{Dir: dir}); !errors.Is(err, fs.ErrPermission) || errors.Is(err, ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

func TestMigrations(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	names := NewCollection[string]("test/names")
	db := open(t, Options{Dir: dir})
	update(t, db, func(tx *Tx) error { return people.Put(tx, "1", person{Name: "Ann"}) })
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	runs := 0
	steps := []Migration{
		{Name: "names apart", Run: func(tx *Tx) error {
			runs++
			return people.Each(tx, "", func(k string, p person) error { return names.Put(tx, k, p.Name) })
		}},
		{Name: "no people", Run: func(tx *Tx) error {
			runs++
			return people.Delete(tx, "1")
		}},
	}
	// A step that fails leaves the store as it was, also for the older weft.
	bad := []Migration{{Name: "broken", Run: func(tx *Tx) error {
		if err := people.Delete(tx, "1"); err != nil {
			return err
		}
		return errors.New("no")
	}}}
	if err := tryOpen(Options{Dir: dir, Migrations: bad}); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("failing migration: %v", err)
	}
	if err := tryOpen(Options{Dir: dir}); err != nil {
		t.Errorf("older weft after a failed migration: %v", err)
	}
	for range 2 {
		db = open(t, Options{Dir: dir, Migrations: steps})
		view(t, db, func(tx *Tx) error {
			if n, err := names.Get(tx, "1"); n != "Ann" || err != nil {
				t.Errorf("name %q, %v", n, err)
			}
			if ok, err := people.Has(tx, "1"); ok || err != nil {
				t.Errorf("person %v, %v", ok, err)
			}
			return nil
		})
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if runs != 2 {
		t.Errorf("%d steps ran, want each once", runs)
	}
	if err := tryOpen(Options{Dir: dir, Migrations: steps[:1]}); !errors.Is(err, ErrNewerSchema) {
		t.Errorf("an older weft: %v", err)
	}
	// A crash between the migration and the marker leaves an old marker; the
	// record inside decides.
	if err := writeMarker(dir, marker{Weft: markerKind, Schema: 1, Made: true}); err != nil {
		t.Fatal(err)
	}
	if err := tryOpen(Options{Dir: dir, Migrations: steps[:1]}); !errors.Is(err, ErrNewerSchema) {
		t.Errorf("an older weft, old marker: %v", err)
	}
	fresh := t.TempDir()
	if err := tryOpen(Options{Dir: fresh, Migrations: bad}); err != nil {
		t.Errorf("a new store needs no migration: %v", err)
	}
}

func TestKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key := []byte("0123456789abcdef")
	secret := []byte("a value that must not be readable on the disk")
	db := open(t, Options{Dir: dir, Key: key})
	update(t, db, func(tx *Tx) error { return blobs.Put(tx, "plain-key-name", secret) })
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(p)
		if strings.Contains(string(raw), string(secret)) || strings.Contains(string(raw), "plain-key-name") {
			t.Errorf("%s shows the value", p)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{"none": nil, "other": []byte("fedcba9876543210"), "short": []byte("x")} {
		if err := tryOpen(Options{Dir: dir, Key: bad}); !errors.Is(err, ErrKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
	db = open(t, Options{Dir: dir, Key: key})
	view(t, db, func(tx *Tx) error {
		got, err := blobs.Get(tx, "plain-key-name")
		if string(got) != string(secret) {
			t.Errorf("got %q", got)
		}
		return err
	})
}
