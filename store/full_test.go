//go:build linux

package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestFullDisk(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("a small file system can be mounted by root only")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"); err != nil {
		t.Skipf("this machine mounts no tmpfs here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	home := filepath.Join(dir, "store")
	cmd, lines, resume := start(t, "fill", home)
	if !lines.Scan() {
		t.Fatalf("child ended: %v", cmd.Wait())
	}
	var acked int
	if n, err := fmt.Sscanf(lines.Text(), "full %d", &acked); n != 1 {
		t.Fatalf("child said %q, %v", lines.Text(), err)
	}
	if acked < 100 {
		t.Errorf("full after %d updates", acked)
	}
	filler := filepath.Join(dir, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 64<<10))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	_ = f.Close()
	resume()
	if lines.Scan(); lines.Text() != "closed" {
		t.Errorf("child said %q", lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := tryOpen(Options{Dir: home}); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "Free some space") {
		t.Errorf("open on a full disk: %v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	db := open(t, Options{Dir: home})
	view(t, db, func(tx *Tx) error {
		if n, err := events.Len(tx, "s"); n != uint64(acked) || err != nil {
			t.Errorf("%d records, %d acknowledged, %v", n, acked, err)
		}
		for n := range acked {
			got, err := blobs.Get(tx, fmt.Sprintf("%06d", n))
			if err != nil {
				return err
			}
			if string(got) != string(value(0, uint64(n), 400+n%2*90<<10)) {
				t.Errorf("value %d differs", n)
			}
		}
		return nil
	})
	if err := db.Close(); err != nil {
		t.Errorf("close a full store: %v", err)
	}
}
