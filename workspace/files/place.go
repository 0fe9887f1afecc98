package files

import (
	"context"
	"crypto/rand"
	"errors"
	"hash/maphash"
	"io/fs"
	"sync"

	"github.com/weftmesh/weft/workspace"
)

// place is a name that is about to be written: its directory is pinned and the
// name is locked against other sessions of this process.
type place struct {
	t      *Tree
	path   workspace.Path
	dir    *object
	name   string
	old    *pin   // what has the name, nil for none
	before []byte // its bytes, once loaded
	unlock func()
}

// placeLocks serialise writes to one name, also between the trees of different
// sessions; two names may share a lock.
var (
	placeLocks [64]sync.Mutex
	placeSeed  = maphash.MakeSeed()
)

func lockPlace(dir ident, name string) (unlock func()) {
	h := maphash.Comparable(placeSeed, dir) ^ maphash.String(placeSeed, fold(name))
	m := &placeLocks[h%uint64(len(placeLocks))]
	m.Lock()
	return m.Unlock
}

func (w *place) close() {
	if w.old != nil {
		w.old.close()
	}
	w.dir.close()
	w.unlock()
}

// look pins what has the name now. Only a regular file that isn't denied may be
// there.
func (w *place) look() error {
	old, err := w.dir.child(w.name)
	if errors.Is(err, fs.ErrNotExist) && !isASCII(w.name) {
		if name, ok := w.dir.spell(w.name); ok {
			w.name = name
			old, err = w.dir.child(name)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	w.old = old
	switch {
	case w.t.denied.Load().has(old.id):
		return secretRefusal(w.dir.root, w.path.Rel())
	case old.regular():
		return nil
	case old.dir():
		return workspace.Fail("is_directory", "%s is a directory", w.path)
	case old.link():
		return linkRefusal(w.path.String())
	}
	return typeRefusal(w.path.String())
}

// load reads the file that has the name, checks the caller's hash, and fails if
// it changes meanwhile. A hash of "" is not checked.
func (w *place) load(p workspace.Path, hash string, limit int64) error {
	if w.old == nil {
		return workspace.Fail("not_found", "no such file: %s; write_file with mode=create makes it", p)
	}
	if w.old.size > limit {
		return workspace.Refuse(workspace.TooLarge, "%s has %d bytes, the limit for this tool is %d", p, w.old.size, limit)
	}
	f, err := w.old.open()
	if err != nil {
		return err
	}
	defer f.close()
	b := make([]byte, w.old.size+1)
	n, err := f.ReadAt(b, 0)
	if err != nil && !isEOF(err) {
		return err
	}
	after := *w.old
	if err := after.stat(); err != nil {
		return err
	}
	if int64(n) != w.old.size || keyOf(&after.info) != keyOf(&w.old.info) {
		return changed(p)
	}
	w.before = b[:n:n]
	if hash != "" && sumOf(w.before) != hash {
		return workspace.Fail("changed", "%s is not what if_sha256 says: it has sha256=%s now; read it again", p, sumOf(w.before))
	}
	return nil
}

func changed(p workspace.Path) error {
	return workspace.Fail("changed", "%s was changed by someone else just now; nothing was written; read it again", p)
}

// store puts content in place, or leaves everything as it was. With no old file
// the name must still be free; otherwise it must still be the old file, unchanged
// since it was loaded.
func (w *place) store(ctx context.Context, content []byte, mode fs.FileMode) error {
	temp := tempPrefix + rand.Text()[:16]
	f, err := w.dir.createTemp(temp, mode)
	if err != nil {
		return err
	}
	err = w.fill(f, content, mode)
	f.close()
	ours := true
	if err == nil {
		ours, err = w.commit(ctx, temp)
	}
	if err != nil {
		if ours {
			_ = w.dir.unlink(temp)
		}
		return err
	}
	return w.dir.syncDir()
}

func (w *place) fill(f *file, content []byte, mode fs.FileMode) error {
	if err := f.write(content); err != nil {
		return err
	}
	if w.old != nil {
		f.own(w.old.uid, w.old.gid)
		if err := f.chmod(mode); err != nil {
			return err
		}
	}
	return f.sync()
}

// commit is the last moment: whether the session still lives and the directory
// is still where the path says is asked right before the rename. ours says that
// the temporary name, if it is left, has our file and not someone else's.
func (w *place) commit(ctx context.Context, temp string) (ours bool, err error) {
	if err := w.t.alive(ctx); err != nil {
		return true, err
	}
	if err := w.t.checkRoots(w.dir.root); err != nil {
		return true, err
	}
	if rel, err := w.dir.realRel(); err != nil || rel != w.dir.rel {
		return true, changed(w.path)
	}
	if w.old == nil {
		return true, w.dir.place(temp, w.name)
	}
	done, err := w.dir.exchange(temp, w.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, changed(w.path)
	case err != nil:
		return true, err
	case done:
		return w.settle(temp)
	}
	// No exchange on this file system: look once more, then replace.
	if st, err := w.dir.statChild(w.name); err != nil || !w.isOld(&st) {
		return true, changed(w.path)
	}
	return true, w.dir.rename(temp, w.name)
}

// settle looks at what the exchange took out, which has the temporary name now,
// and puts it back if it isn't the old file.
func (w *place) settle(temp string) (ours bool, err error) {
	if st, err := w.dir.statChild(temp); err != nil || !w.isOld(&st) {
		if _, err := w.dir.exchange(temp, w.name); err != nil {
			return false, err
		}
		return true, changed(w.path)
	}
	// If this fails the old bytes stay under a hidden name; the write is done.
	_ = w.dir.unlink(temp)
	return false, nil
}

// isOld reports whether a file is the one that was loaded, unchanged. Its ctime
// changes by the rename itself.
func (w *place) isOld(st *info) bool {
	return st.id == w.old.id && st.size == w.old.size && st.mtime == w.old.mtime
}

// severed counts the other names of the old file.
func (w *place) severed() int {
	if w.old == nil || w.old.nlink < 2 {
		return 0
	}
	return int(w.old.nlink - 1)
}
