package files

import (
	"errors"
	"io/fs"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/weftmesh/weft/workspace"
)

// object is a path that passed every check, pinned. The caller closes it.
type object struct {
	*pin
	root *root
	rel  string // as on disk
}

func (o *object) String() string { return virtual(o.root, o.rel) }

// resolve checks a path by name and pins what it leads to, then checks that by
// its real name and inode. Every operation on an existing object starts here.
func (t *Tree) resolve(p workspace.Path, w want) (*object, error) {
	r, refusal := t.find(p)
	if refusal != nil {
		return nil, refusal
	}
	if refusal := t.checkName(r, p.Rel(), w); refusal != nil {
		return nil, refusal
	}
	if err := t.checkRoots(r); err != nil {
		return nil, err
	}
	// A file that is saved by rename can lose its name between two steps; it
	// has it again at once.
	for try := 0; ; try++ {
		o, err := t.pinChecked(r, p.Rel(), w)
		if errors.Is(err, errDeleted) && try < 8 {
			continue
		}
		if err != nil {
			return nil, explain(err, p.String())
		}
		return o, nil
	}
}

// checkRoots refuses work on a root that was moved or replaced, or that shares
// directories with one that was.
func (t *Tree) checkRoots(r *root) error {
	moved := r.base.moved()
	for _, n := range r.nested {
		moved = moved || n.root.base.moved()
	}
	for _, o := range r.outer {
		moved = moved || o.root.base.moved()
	}
	if moved {
		return workspace.Refuse(workspace.OutsideGrant, "the folder %s was moved or replaced on the requester's machine; the requester must put it back or share again", r.name)
	}
	return nil
}

func (t *Tree) pinChecked(r *root, rel string, w want) (*object, error) {
	p, err := r.base.pin(rel)
	if errors.Is(err, fs.ErrNotExist) {
		if spelled, ok := r.spelling(rel); ok {
			p, err = r.base.pin(spelled)
		}
	}
	if err != nil {
		return nil, t.missing(r, rel, w, err)
	}
	o := &object{pin: p, root: r}
	if err := t.checkPinned(o, rel, w); err != nil {
		p.close()
		return nil, err
	}
	return o, nil
}

// missing hides what an error would say about names outside the include globs:
// a name that could only be a directory on the way has the answer that it has
// as a file, and a file or link in the place of a directory is as good as none.
func (t *Tree) missing(r *root, rel string, w want, err error) error {
	if w != wantFile && t.checkName(r, rel, wantFile) != nil {
		return scopeRefusal(r, rel)
	}
	if parent, _, ok := cutLast(rel); ok && !errors.Is(err, errDeleted) && t.checkName(r, parent, wantFile) != nil {
		return fs.ErrNotExist
	}
	return err
}

// cutLast splits off the last component.
func cutLast(rel string) (parent, name string, ok bool) {
	i := strings.LastIndexByte(rel, '/')
	if i < 0 {
		return "", rel, false
	}
	return rel[:i], rel[i+1:], true
}

func (t *Tree) checkPinned(o *object, rel string, w want) error {
	var err error
	if o.rel, err = o.realRel(); err != nil {
		return err
	}
	// Asked again for the name on disk, or now that it is known to be no directory.
	if narrow := w != wantFile && !o.dir(); narrow || o.rel != rel {
		if narrow {
			w = wantFile
		}
		if refusal := t.checkName(o.root, o.rel, w); refusal != nil {
			return refusal
		}
	}
	if t.denied.Load().has(o.id) {
		return secretRefusal(o.root, rel)
	}
	return nil
}

// resolveFile is resolve for a regular file.
func (t *Tree) resolveFile(p workspace.Path) (*object, error) {
	o, err := t.resolve(p, wantFile)
	if err != nil {
		return nil, err
	}
	switch {
	case o.regular():
		return o, nil
	case o.dir():
		err = workspace.Fail("is_directory", "%s is a directory; use list_dir", p)
	case o.link():
		err = linkRefusal(p.String())
	default:
		err = typeRefusal(p.String())
	}
	o.close()
	return nil, err
}

// resolveDir is resolve for a directory.
func (t *Tree) resolveDir(p workspace.Path) (*object, error) {
	o, err := t.resolve(p, wantDir)
	if err != nil {
		return nil, err
	}
	if err = isDir(o, p.String()); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

func isDir(o *object, path string) error {
	switch {
	case o.dir():
		return nil
	case o.regular():
		return workspace.Fail("not_directory", "%s is a file", path)
	case o.link():
		return linkRefusal(path)
	}
	return typeRefusal(path)
}

// spelling finds the name on disk that differs from rel only in composition: a
// disk written by a Mac has decomposed names, a model writes composed ones. ok
// is false if there is none, or more than one.
func (r *root) spelling(rel string) (string, bool) {
	if norm.NFC.QuickSpanString(rel) == len(rel) && isASCII(rel) {
		return "", false
	}
	found := ""
	for _, want := range strings.Split(rel, "/") {
		dir, err := r.base.pin(found)
		if err != nil {
			return "", false
		}
		name, ok := dir.spell(want)
		dir.close()
		if !ok {
			return "", false
		}
		found = strings.TrimPrefix(found+"/"+name, "/")
	}
	return found, found != rel
}

func (p *pin) spell(name string) (string, bool) {
	if isASCII(name) {
		return name, true
	}
	found, n, seen := "", 0, 0
	form := norm.NFC.String(name)
	err := p.entries(func(e entry) bool {
		if seen++; e.name == name {
			found, n = name, 1
			return false
		}
		if !isASCII(e.name) && norm.NFC.String(e.name) == form {
			found = e.name
			n++
		}
		return seen < walkEntries
	})
	return found, err == nil && n == 1
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
