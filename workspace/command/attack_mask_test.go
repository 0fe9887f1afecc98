//go:build linux

package command

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/weftmesh/weft/workspace/redact"
)

// denyEnv denies names as a denylist would: what exists when asked.
func denyEnv(dir *string) func(*Config) {
	return func(c *Config) {
		*dir = c.Roots[0].HostDir
		c.Secret = func(rel string) bool {
			return strings.HasPrefix(filepath.Base(rel), ".env") || strings.Contains("/"+rel+"/", "/secrets/")
		}
		c.Denied = func(context.Context) ([]DeniedPath, error) {
			var out []DeniedPath
			err := filepath.WalkDir(*dir, func(p string, d fs.DirEntry, err error) error {
				rel, _ := filepath.Rel(*dir, p)
				if err == nil && rel != "." && c.Secret(rel) {
					out = append(out, DeniedPath{"app", filepath.ToSlash(rel), d.IsDir()})
				}
				return nil
			})
			return out, err
		}
		c.Redact = func() *redact.Set { return redact.New([]redact.Secret{{Value: []byte(hunter)}}) }
	}
}

// Cases 30, 31, 33: masked files and directories can't be read, written,
// moved, linked or removed, by any name.
func TestCase30To33Masks(t *testing.T) {
	t.Parallel()
	var dir string
	b := newBox(t, map[string]string{".env": "K=" + hunter, "sub/.env.local": "K=" + hunter, "secrets/deep/x": hunter, "allowed/ok": "fine\n"}, denyEnv(&dir))
	res := b.sh(`exec 2>&1
		for f in .env sub/.env.local secrets/deep/x; do
			cat $f && echo "READ $f"; head -c1 $f && echo "READ $f"; cp $f copy && echo "COPIED $f"; ln $f link && echo "LINKED $f"; tar cf t.tar $f && echo "TARRED $f"
			(echo x > $f) && echo "WROTE $f"; (echo x >> $f) && echo "APPENDED $f"; mv $f other && echo "MOVED $f"; rm -f $f && echo "REMOVED $f"; chmod 777 $f && echo "CHMOD $f"
			(echo x > n) && mv n $f && echo "REPLACED $f"
		done
		mv secrets s2 && echo "MOVED secrets"; rm -rf secrets && echo "REMOVED secrets"; touch secrets/new && echo "CREATED secrets/new"; ls -A secrets
		grep -r hunter . && echo FOUND; find . -name '*' -type f -exec cat {} + | grep hunter && echo FOUND
		umount .env && echo UMOUNTED; cat /proc/1/root/work/app/.env /proc/self/cwd/.env && echo "READ by proc"
		cat allowed/ok`)
	for _, bad := range []string{"READ", "COPIED", "LINKED", "TARRED", "WROTE", "APPENDED", "MOVED .env", "MOVED sub", "MOVED secrets\n", "REMOVED .env", "REMOVED sub", "REMOVED secrets\n", "REPLACED .env", "REPLACED sub", "CREATED", "CHMOD", "FOUND", "UMOUNTED", hunter, redact.Placeholder} {
		if strings.Contains(string(res.Output), bad) {
			t.Errorf("%s in\n%s", bad, res.Output)
		}
	}
	if !strings.Contains(string(res.Output), "fine") {
		t.Errorf("the allowed file isn't readable:\n%s", res.Output)
	}
	for _, f := range []string{".env", "sub/.env.local", "secrets/deep/x"} {
		if got, err := os.ReadFile(filepath.Join(dir, f)); err != nil || !strings.Contains(string(got), hunter) {
			t.Errorf("%s is %q, %v", f, got, err)
		}
	}
}

// Case 32: a denied file that doesn't exist yet is reported when a command
// makes it, and no placeholder is left behind.
func TestCase32CreatedDenied(t *testing.T) {
	t.Parallel()
	var dir string
	b := newBox(t, map[string]string{"a": "x"}, denyEnv(&dir))
	res := b.sh(`touch .env; mkdir -p sub secrets; touch secrets/x sub/plain; mkdir sub/.git; echo "[core]" > sub/.git/config; mkdir -p bare/objects bare/refs; touch bare/HEAD`)
	want := []string{"app/bare", "app/sub/.git", "app/.env", "app/secrets", "app/secrets/x"}
	if diff := cmp.Diff(want, res.CreatedDenied); diff != "" {
		t.Error(diff)
	}
	// The next command finds them masked or read-only.
	res = b.sh(`exec 2>&1; (echo x > .env) && echo WROTE; touch secrets/y && echo CREATED; echo x > sub/.git/config && echo WROTE; touch bare/config && echo CREATED; true`)
	if s := string(res.Output); strings.Contains(s, "WROTE") || strings.Contains(s, "CREATED") {
		t.Error(s)
	}
	b2 := newBox(t, map[string]string{"a": "x"})
	b2.Runner.cfg.Denied = func(context.Context) ([]DeniedPath, error) { return []DeniedPath{{"app", "gone/.env", false}}, nil }
	b2.sh("true")
	if entries, _ := os.ReadDir(b2.dir); len(entries) != 1 {
		t.Errorf("droppings: %v", entries)
	}
}

// A denied symlink is masked at its target.
func TestMaskedSymlink(t *testing.T) {
	t.Parallel()
	var dir string
	b := newBox(t, map[string]string{"real": "K=" + hunter, "sub/x": ""}, denyEnv(&dir))
	for link, target := range map[string]string{".env": "real", "sub/.env": "../real", ".env.out": "/etc/passwd", ".env.gone": "nowhere"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	res := b.sh(`exec 2>/dev/null; cat .env sub/.env real && echo READ; cat .env.out | grep -c root:x; true`)
	if s := string(res.Output); strings.Contains(s, "READ") || strings.Contains(s, "hunter") || strings.Contains(s, redact.Placeholder) {
		t.Error(s)
	}
}

// Too many protected files refuse the command instead of leaving some open.
func TestMasksAreBounded(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"x": ""})
	var list []DeniedPath
	files := map[string]string{}
	for i := range maxMasks + 1 {
		name := "k" + itoa(i)
		files[name] = ""
		list = append(list, DeniedPath{"app", name, false})
	}
	b.put(files)
	b.Runner.cfg.Denied = func(context.Context) ([]DeniedPath, error) { return list, nil }
	_, err := b.Run(context.Background(), Request{Plan: script("true"), Root: "app"})
	if err == nil || !strings.Contains(err.Error(), "DENIED command_not_granted") {
		t.Errorf("got %v", err)
	}
	b.Runner.cfg.Denied = func(context.Context) ([]DeniedPath, error) { return list[:300], nil }
	if res := b.sh("cat k0 k299 2>&1 | grep -c denied"); string(res.Output) != "2\n" {
		t.Errorf("got %q", res.Output)
	}
}

// Case 24: a root inside another with fewer rights keeps them there.
func TestCase24NestedRoots(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"inner/x": "x", "y": "y"}, func(c *Config) {
		c.Roots = append(c.Roots, Mount{Name: "inner", HostDir: filepath.Join(c.Roots[0].HostDir, "inner")})
		os.MkdirAll(c.Roots[1].HostDir, 0o755)
	})
	res := b.sh(`exec 2>/dev/null; echo 1 > inner/x && echo WROTE; touch inner/new && echo WROTE; mv inner i2 && echo MOVED; echo 1 > /work/inner/x && echo WROTE; echo 1 > y && echo ok`)
	if string(res.Output) != "ok\n" {
		t.Errorf("got %q", res.Output)
	}
}

// Case 23: a root that was replaced is not used.
func TestCase23RootReplaced(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"x": ""})
	if err := os.Rename(b.dir, b.dir+"2"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(b.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := b.Run(context.Background(), Request{Plan: script("true"), Root: "app"})
	if err == nil || !strings.Contains(err.Error(), "DENIED outside_grant") || strings.Contains(err.Error(), b.dir) {
		t.Errorf("got %v", err)
	}
}

func TestChangedList(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"keep": "k", "edit": "1", "gone": "g", "d/same": "s", "touched": "t"})
	res := b.sh(`echo 2 > edit; rm gone; mkdir n; echo x > n/f; ln -s keep l; chmod +x touched; cat keep`)
	want := []string{"app/edit", "app/gone", "app/l", "app/n", "app/n/f", "app/touched"}
	if diff := cmp.Diff(want, res.Changed); diff != "" || res.ChangedTruncated {
		t.Error(diff, res.ChangedTruncated)
	}
	b.Runner.cfg.Limits.Entries = 3
	if res := b.sh("true"); !res.ChangedTruncated {
		t.Error("a scan beyond its bound isn't reported")
	}
}

// A scan never leaves the root, whatever is renamed meanwhile.
func TestScanFollowsNoLinks(t *testing.T) {
	t.Parallel()
	dir, out := tempDir(t), tempDir(t)
	put(t, out, map[string]string{"outside": "x"})
	put(t, dir, map[string]string{"a": "x"})
	os.Symlink(out, filepath.Join(dir, "link"))
	os.Symlink(".", filepath.Join(dir, "loop"))
	s, err := scan(context.Background(), dir, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for n := range s.files {
		names = append(names, n)
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"a", "link", "loop"}, names); diff != "" {
		t.Error(diff)
	}
}

// Case 15: what is mounted inside a root is not part of it.
func TestCase15Submounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir := tempDir(t)
	at := filepath.Join(dir, "a b", "mnt")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("weft-test", at, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip(err)
	}
	defer unix.Unmount(at, unix.MNT_DETACH)
	put(t, at, map[string]string{"elsewhere": "other-device"})
	b := newBox(t, nil, func(c *Config) { c.Roots[0].HostDir = dir })
	res := b.sh(`exec 2>/dev/null; cat "a b/mnt/elsewhere" && echo READ; touch "a b/mnt/new" && echo WROTE; ls -A "a b/mnt"; mv "a b/mnt" x && echo MOVED; echo ok`)
	if string(res.Output) != "ok\n" {
		t.Errorf("got %q", res.Output)
	}
	if got := unescapeMount(`/a\040b\134c\011`); got != "/a b\\c\t" {
		t.Errorf("got %q", got)
	}
}
