package command

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// scanTime bounds the scan of one root before and after a command.
const scanTime = 5 * time.Second

// mark is what tells one state of a file from another.
type mark struct {
	size         int64
	mtime, ctime int64 // ns; ctime is 0 where the platform doesn't tell
	inode        uint64
	mode         fs.FileMode
}

// snapshot is the state of one root.
type snapshot struct {
	files map[string]mark // slash-separated path below the root
	// git lists ".git" entries and bare repositories, sorted: what lets its
	// writer run code as the owner of the folder.
	git []string
	// sockets lists socket files.
	truncated bool
}

// scan walks a root by directory handles, so that nothing outside is visited
// whatever the commands rename meanwhile. It never follows a symlink and does
// not look into git directories, except at the files that every commit
// touches.
func scan(ctx context.Context, dir string, entries int) (snapshot, error) {
	s := snapshot{files: map[string]mark{}}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return s, err
	}
	w := walker{ctx: ctx, snapshot: &s, left: entries, until: time.Now().Add(scanTime)}
	err = w.walk(root, "", 0)
	slices.Sort(s.git)
	return s, err
}

type walker struct {
	ctx   context.Context
	left  int
	until time.Time
	*snapshot
}

const (
	maxDepth   = 256
	readDirMax = 4096
)

// walk visits one directory and closes it.
func (w *walker) walk(dir *os.Root, rel string, depth int) error {
	defer dir.Close()
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if depth > maxDepth || w.truncated || time.Now().After(w.until) {
		w.truncated = true
		return nil
	}
	f, err := dir.Open(".")
	if err != nil {
		return nil // unreadable: nothing that could be told about it
	}
	defer f.Close()
	names := map[string]bool{}
	var dirs []string
	for {
		list, err := f.ReadDir(readDirMax)
		for _, e := range list {
			if w.left--; w.left < 0 {
				w.truncated = true
				return nil
			}
			name := e.Name()
			info, err := dir.Lstat(name)
			if err != nil {
				continue // gone meanwhile
			}
			at := path.Join(rel, name)
			names[name] = true
			switch {
			case strings.EqualFold(name, ".git"):
				w.git = append(w.git, at)
				w.gitFiles(dir, name, at)
			case info.IsDir():
				dirs = append(dirs, name)
				w.files[at] = mark{mode: info.Mode().Type()}
			default:
				w.files[at] = markOf(info)
			}
		}
		if err != nil {
			break
		}
	}
	if names["HEAD"] && names["objects"] && names["refs"] {
		w.git = append(w.git, rel)
	}
	for _, d := range dirs {
		sub, err := dir.OpenRoot(d)
		if err != nil {
			continue
		}
		if err := w.walk(sub, path.Join(rel, d), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// gitFiles records the files of a git directory that a commit changes.
func (w *walker) gitFiles(dir *os.Root, name, at string) {
	for _, f := range []string{"", "HEAD", "index", "config", "logs/HEAD", "packed-refs"} {
		if info, err := dir.Lstat(path.Join(name, f)); err == nil && !info.IsDir() {
			w.files[path.Join(at, f)] = markOf(info)
		}
	}
}

// changes lists what differs, sorted.
func changes(before, after map[string]mark) []string {
	var out []string
	for p, m := range after {
		if old, ok := before[p]; !ok || old != m {
			out = append(out, p)
		}
	}
	for p := range before {
		if _, ok := after[p]; !ok {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

// maxChanged bounds the list in a Result.
const maxChanged = 1000

// footprint is the state of all writable roots.
type footprint struct {
	roots  map[string]snapshot
	denied map[string]bool // virtual paths
}

func (f *footprint) compare(after *footprint, res *Result) {
	for _, name := range slices.Sorted(maps.Keys(after.roots)) {
		a, b := after.roots[name], f.roots[name]
		for _, p := range changes(b.files, a.files) {
			if len(res.Changed) >= maxChanged {
				res.ChangedTruncated = true
				break
			}
			res.Changed = append(res.Changed, name+"/"+p)
		}
		for _, p := range a.git {
			if _, had := slices.BinarySearch(b.git, p); !had && !b.truncated {
				res.CreatedDenied = append(res.CreatedDenied, path.Join(name, p))
			}
		}
		res.ChangedTruncated = res.ChangedTruncated || a.truncated || b.truncated
	}
	for _, p := range slices.Sorted(maps.Keys(after.denied)) {
		if !f.denied[p] && !slices.Contains(res.CreatedDenied, p) {
			res.CreatedDenied = append(res.CreatedDenied, p)
		}
	}
	if len(res.CreatedDenied) > maxChanged {
		res.CreatedDenied, res.ChangedTruncated = res.CreatedDenied[:maxChanged], true
	}
}
