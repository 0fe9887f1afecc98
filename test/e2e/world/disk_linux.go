package world

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Disk is a small file system of its own under a node's home.
type Disk struct {
	dir    string
	filler string
}

// OnDisk puts the home of a node that is down, and was never up, on a file
// system of the given size in bytes. It needs root.
func (n *Node) OnDisk(t testing.TB, size int64) *Disk {
	t.Helper()
	if err := os.MkdirAll(n.Home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", n.Home, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("size=%d,mode=0700", size)); err != nil {
		Missing(t, "the right to mount a small disk for %s: %v", n.Name, err)
	}
	t.Cleanup(func() {
		// Detached: the daemon, which ends with the world, still has it open.
		if err := unix.Unmount(n.Home, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", n.Home, err)
		}
	})
	return &Disk{dir: n.Home, filler: filepath.Join(n.Home, "filler")}
}

// Fill takes all that is left of the disk.
func (d *Disk) Fill(t testing.TB) {
	t.Helper()
	f, err := os.OpenFile(d.filler, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for chunk := 1 << 20; chunk > 0; {
		if _, err := f.Write(make([]byte, chunk)); err == nil {
			continue
		} else if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		chunk /= 2
	}
}

// Free gives the disk back, and returns when there is room: a child of another
// test may hold the removed file open until it has started.
func (d *Disk) Free(t testing.TB) {
	t.Helper()
	info, err := os.Stat(d.filler)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(d.filler); err != nil {
		t.Fatal(err)
	}
	Until(t, Patience, "room on the disk", func() string {
		var fs unix.Statfs_t
		if err := unix.Statfs(d.dir, &fs); err != nil {
			return err.Error()
		}
		if free := int64(fs.Bavail) * fs.Bsize; free < info.Size()/2 {
			return fmt.Sprintf("%d bytes are free", free)
		}
		return ""
	})
}
