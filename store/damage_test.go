package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A kill may leave anything behind what was synced. Whatever is there, Open
// finds everything acknowledged.
func TestTornTail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	acked := map[int]uint64{}
	killed(t, dir, 60, time.Millisecond, acked)
	names := logs(t, dir)
	last := names[len(names)-1]
	f, err := os.Open(last)
	if err != nil {
		t.Fatal(err)
	}
	end, err := wholeEntries(f)
	_ = f.Close()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	garbage := make([]byte, 9000)
	for i := range garbage {
		garbage[i] = byte(r.Uint32())
	}
	whole, err := os.ReadFile(last)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]func([]byte) []byte{
		"garbage after the end":     func(b []byte) []byte { copy(b[end:], garbage); return b },
		"cut right after the end":   func(b []byte) []byte { return b[:end] },
		"cut to a page":             func(b []byte) []byte { return b[:(end+4095)/4096*4096] },
		"an entry's start":          func(b []byte) []byte { copy(b[end:], []byte{0x40, 0, 30, 200, 1, 0, 'c'}); return b },
		"an entry without its sum":  func(b []byte) []byte { copy(b[end:], b[logHeader:logHeader+60]); b[end+20] ^= 1; return b },
		"an old transaction's mark": func(b []byte) []byte { i := bytes.Index(b, []byte(endMark)); copy(b[end+700:], b[i-5:i+43]); return b },
		"nothing at all after it":   func(b []byte) []byte { return b },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			copied := t.TempDir()
			if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(copied, filepath.Base(last)), change(bytes.Clone(whole)), 0o600); err != nil {
				t.Fatal(err)
			}
			checkSteps(t, open(t, Options{Dir: copied}), acked, 1)
		})
	}
}

// Damage before the end of what was synced is no crash. Open must say so
// rather than drop what follows, as Badger does.
func TestDamagedLogIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	killed(t, dir, 60, time.Millisecond, map[int]uint64{})
	name := logs(t, dir)[0]
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{logHeader + 10, bytes.Index(whole, []byte(endMark)) + 2, bytes.Index(whole, []byte(endMark)) + 60} {
		bad := bytes.Clone(whole)
		bad[at] ^= 0x10
		if err := os.WriteFile(name, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		err := tryOpen(Options{Dir: dir})
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "backup") {
			t.Errorf("byte %d flipped: %v", at, err)
		}
		if now, err := os.ReadFile(name); err != nil || !bytes.Equal(now, bad) {
			t.Errorf("the refused log was changed: %v", err)
		}
	}
	if err := os.WriteFile(name, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := tryOpen(Options{Dir: dir}); err != nil {
		t.Errorf("the whole log: %v", err)
	}
}

// A kill between the creation of a log and its sizing leaves an empty file,
// which Badger takes for an error at the first Open.
func TestEmptyLogFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	acked := map[int]uint64{}
	killed(t, dir, 60, time.Millisecond, acked)
	names := logs(t, dir)
	var last int
	if _, err := fmt.Sscanf(filepath.Base(names[len(names)-1]), "%05d.mem", &last); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%05d.mem", last+1)), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	checkSteps(t, open(t, Options{Dir: dir}), acked, 1)
}

// A damaged value or table is an error, not another value.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	for _, ext := range []string{"vlog", "sst"} {
		dir := t.TempDir()
		db := open(t, Options{Dir: dir})
		update(t, db, func(tx *Tx) error {
			for i := range 20 {
				if err := blobs.Put(tx, strconv.Itoa(i), value(1, uint64(i), 3000)); err != nil {
					return err
				}
				if err := blobs.Put(tx, "small"+strconv.Itoa(i), value(2, uint64(i), 300)); err != nil {
					return err
				}
			}
			return nil
		})
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		names, err := filepath.Glob(filepath.Join(dir, "*."+ext))
		if err != nil || len(names) == 0 {
			t.Fatalf("no %s: %v", ext, err)
		}
		raw, err := os.ReadFile(names[0])
		if err != nil {
			t.Fatal(err)
		}
		raw[2000] ^= 4
		if err := os.WriteFile(names[0], raw, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err = Open(Options{Dir: dir, Log: slog.New(slog.DiscardHandler)})
		if err == nil {
			err = db.View(func(tx *Tx) error {
				return blobs.Each(tx, "", func(string, []byte) error { return nil })
			})
			_ = db.Close()
		}
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", ext, err)
		}
	}
}

// A redo record that was written but not applied is applied by Open.
func TestRedoIsFinished(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := open(t, Options{Dir: dir})
	update(t, db, func(tx *Tx) error { return blobs.Put(tx, "gone", []byte("x")) })
	o := overlay{spacePrefix(spaceCollection, blobs.name) + "gone": {gone: true}}
	for i := range 3000 {
		o[spacePrefix(spaceCollection, blobs.name)+strconv.Itoa(i)] = write{val: value(0, uint64(i), 400)}
	}
	update(t, db, func(tx *Tx) error { return tx.put(redoKey, write{val: encodeRedo(o)}) })
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // and only once
		db = open(t, Options{Dir: dir})
		view(t, db, func(tx *Tx) error {
			if n := blobs.Count(tx, ""); n != 3000 {
				t.Errorf("%d values", n)
			}
			if ok, err := tx.has(redoKey); ok || err != nil {
				t.Errorf("redo record: %v, %v", ok, err)
			}
			return nil
		})
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// endMarks must find a mark wherever it lies relative to its buffer.
func TestEndMarksAcrossBuffers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	killed(t, dir, 60, time.Millisecond, map[int]uint64{})
	whole, err := os.ReadFile(logs(t, dir)[0])
	if err != nil {
		t.Fatal(err)
	}
	i := bytes.Index(whole, []byte(endMark))
	head, size, ok := entryHead(whole[i-5:])
	if !ok {
		t.Fatal("no end mark")
	}
	mark := whole[i-5 : i-5+head+size+4]
	for off := 64<<10 - 120; off < 64<<10+20; off++ {
		buf := make([]byte, off, off+2*len(mark))
		buf = append(append(buf, mark...), mark...)
		if n, err := endMarks(bytes.NewReader(buf)); n != 2 || err != nil {
			t.Fatalf("at %d: %d marks, %v", off, n, err)
		}
		if n, err := endMarks(io.MultiReader(bytes.NewReader(buf), bytes.NewReader(make([]byte, 100<<10)))); n != 2 || err != nil {
			t.Fatalf("at %d, with zeros after: %d marks, %v", off, n, err)
		}
	}
}
