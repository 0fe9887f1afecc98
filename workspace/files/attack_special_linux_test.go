package files

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// specials makes one of each file that isn't a file.
func specials(t *testing.T, dir string) []string {
	t.Helper()
	must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o666))
	l, err := net.Listen("unix", filepath.Join(dir, "sock"))
	must(t, err)
	t.Cleanup(func() { l.Close() })
	names := []string{"fifo", "sock"}
	if os.Getuid() == 0 {
		must(t, unix.Mknod(filepath.Join(dir, "zero"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))))
		must(t, unix.Mknod(filepath.Join(dir, "disk"), unix.S_IFBLK|0o666, int(unix.Mkdev(7, 0))))
		names = append(names, "zero", "disk")
	}
	return names
}

func TestCase13And14SpecialFiles(t *testing.T) {
	tree, dir := granted(t, map[string]string{"a.txt": "plain"})
	for _, name := range specials(t, dir) {
		done := make(chan map[string]error, 1)
		go func() { done <- use(t, tree).each("app/" + name) }()
		select {
		case errs := <-done:
			for verb, err := range errs {
				if got := verdict(err); verb != "stat" && got != "special_file" || verb == "stat" && err != nil {
					t.Errorf("%s of %s: %v", verb, name, err)
				}
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s blocks", name)
		}
		r, err := tree.Stat(use(t, tree).ctx, StatRequest{pathOf(t, "app/"+name)})
		want := map[string]string{"fifo": "fifo", "sock": "socket", "zero": "device", "disk": "device"}[name]
		if err != nil || r.Type != want {
			t.Errorf("stat %s: %s %v", name, r.Type, err)
		}
	}
	for _, o := range use(t, tree).outputs("app", "plain") {
		if !strings.Contains(o, "a.txt") {
			t.Errorf("the plain file is missing: %s", o)
		}
	}
}

// TestCase14FIFOHasNoReader: not even for a moment did the tree open the FIFO,
// or a writer waiting for a reader would have gone on.
func TestCase14FIFOHasNoReader(t *testing.T) {
	tree, dir := granted(t, nil)
	fifo := filepath.Join(dir, "fifo")
	must(t, unix.Mkfifo(fifo, 0o666))
	use(t, tree).each("app/fifo")
	use(t, tree).outputs("app", ".")
	if fd, err := unix.Open(fifo, unix.O_WRONLY|unix.O_NONBLOCK, 0); err != unix.ENXIO {
		unix.Close(fd)
		t.Errorf("the FIFO has a reader: %v", err)
	}
}

func TestCase15MountCrossing(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounts need root")
	}
	outside := t.TempDir()
	put(t, outside, map[string]string{"f.txt": "OUTSIDE"})
	tree, dir := granted(t, map[string]string{"a.txt": "a", "bind/": "", "tmp/": ""})
	for _, m := range []struct{ source, fs, at string }{{outside, "", "bind"}, {"none", "tmpfs", "tmp"}} {
		at := filepath.Join(dir, m.at)
		flags := uintptr(0)
		if m.fs == "" {
			flags = unix.MS_BIND
		}
		if err := unix.Mount(m.source, at, m.fs, flags, ""); err != nil {
			t.Skipf("mount: %v", err)
		}
		t.Cleanup(func() { must(t, unix.Unmount(at, unix.MNT_DETACH)) })
	}
	put(t, filepath.Join(dir, "tmp"), map[string]string{"f.txt": "OUTSIDE"})
	for _, walk := range []bool{false, true} {
		tree.roots[0].base.walk = walk
		for _, p := range []string{"app/bind", "app/bind/f.txt", "app/tmp", "app/tmp/f.txt"} {
			for verb, err := range use(t, tree).each(p) {
				if got := verdict(err); got != "outside_grant" {
					t.Errorf("walk %v: %s of %s: %v", walk, verb, p, err)
				}
			}
		}
		for _, o := range use(t, tree).outputs("app", "OUTSIDE") {
			if strings.Contains(o, "f.txt") || strings.Contains(o, "OUTSIDE\n") {
				t.Errorf("shown: %s", o)
			}
		}
	}
}

// TestWalkFallback runs the path attacks again as on a kernel without openat2.
func TestWalkFallback(t *testing.T) {
	tree, dir := granted(t, map[string]string{"d/f.txt": "inside", "link": "-> d", "file": "-> d/f.txt", "x": "x"})
	b := tree.roots[0].base
	for _, rel := range []string{"", "d", "d/f.txt", "link", "link/f.txt", "file", "x/y", "none", "none/x", "d/none", "../x"} {
		b.walk = false
		p1, err1 := b.pin(rel)
		b.walk = true
		p2, err2 := b.pin(rel)
		if (err1 == nil) != (err2 == nil) || err1 == nil && p1.id != p2.id {
			t.Errorf("%q: openat2 %v, walk %v", rel, err1, err2)
		}
		if err1 != nil && explain(err1, rel).Error() != explain(err2, rel).Error() && !strings.Contains(rel, "..") {
			t.Errorf("%q: openat2 %v, walk %v", rel, err1, err2)
		}
		if err1 == nil {
			p1.close()
		}
		if err2 == nil {
			p2.close()
		}
	}
	if text, err := use(t, tree).read("app/d/f.txt"); err != nil || !strings.HasSuffix(text, "inside") {
		t.Errorf("%q %v in %s", text, err, dir)
	}
}
