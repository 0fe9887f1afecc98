package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weftmesh/weft/workspace"
)

// Tree is the granted folders of one session. The requester's gate owns it and
// may call it from many goroutines. The errors of its operations are
// *workspace.Refusal or *workspace.Failure, and fit for the provider's eyes.
type Tree struct {
	rules  Rules
	roots  []*root // immutable
	facts  factCache
	redact atomic.Pointer[Redactor]

	life   sync.RWMutex // read-held by each operation; Close takes it whole
	closed atomic.Bool

	scanning sync.Mutex // one scan at a time
	denied   atomic.Pointer[deniedSet]
}

// root is one granted directory.
type root struct {
	name   string
	rights workspace.Right
	scope  scope
	base   *base
	// nested are roots below this one, outer those above it.
	nested, outer []overlap
}

// overlap is another root and the path between: of the nested root below this
// one, or of this one below the outer root.
type overlap struct {
	root *root
	rel  string
}

// OpenTree opens the granted directories and scans them for denied files. It
// fails if a root is missing, is no directory, is itself secret, holds or lies
// in a reserved directory, or is given twice; with no root; and if the scan
// can't finish. The caller closes the tree.
func OpenTree(specs []RootSpec, rules Rules) (*Tree, error) {
	if rules.secret.empty() {
		return nil, errors.New("no denylist: start from files.DefaultRules")
	}
	if len(specs) == 0 {
		return nil, errors.New("no folder to grant: name at least one directory")
	}
	t := &Tree{rules: rules}
	for _, s := range specs {
		r, err := openRoot(s, rules)
		if err != nil {
			t.closeRoots()
			return nil, fmt.Errorf("root %s: %w", s.Name, err)
		}
		t.roots = append(t.roots, r)
	}
	if err := t.overlaps(); err != nil {
		t.closeRoots()
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), scanTime)
	defer cancel()
	if err := t.rescan(ctx); err != nil {
		t.closeRoots()
		return nil, err
	}
	return t, nil
}

func openRoot(s RootSpec, rules Rules) (*root, error) {
	if p, refusal := workspace.ParsePath(s.Name); refusal != nil || !p.IsRoot() {
		return nil, errors.New("bad name: use letters, digits and dashes, as in app")
	}
	if !s.Rights.Has(workspace.Read) {
		return nil, errors.New("no read right: every root has it")
	}
	sc, err := newScope(s.Include, s.Exclude)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(s.Dir)
	if err != nil {
		return nil, err
	}
	b, err := openBase(dir)
	if err != nil {
		return nil, err
	}
	if err := mayGrant(b.real, rules); err != nil {
		b.close()
		return nil, err
	}
	return &root{name: s.Name, rights: s.Rights, scope: sc, base: b}, nil
}

// mayGrant refuses a root that is secret or reserved as a whole.
func mayGrant(dir string, rules Rules) error {
	comps := strings.Split(foldPath(strings.Trim(filepath.ToSlash(dir), "/")), "/")
	for i := range comps {
		// Above the last component only plain names count: the home of
		// "monkey_keys" may still have projects.
		hard := rules.secret.exact[comps[i]] && !rules.allow.tail(comps[:i+1])
		if hard || i == len(comps)-1 && rules.secretTail(comps) {
			return fmt.Errorf("%s is on the denylist; grant another directory or carve the name out", dir)
		}
		if comps[i] == ".git" {
			return fmt.Errorf("%s is git's own; grant the working tree", dir)
		}
	}
	for _, r := range rules.reserved {
		abs, err := filepath.Abs(r)
		if err != nil {
			return err
		}
		if real, err := filepath.EvalSymlinks(abs); err == nil {
			abs = real
		}
		if sameOrBelow(abs, dir) || sameOrBelow(dir, abs) {
			return fmt.Errorf("%s holds or lies in weft's own directory %s; grant another directory", dir, abs)
		}
	}
	return nil
}

// overlaps links the roots that lie in one another.
func (t *Tree) overlaps() error {
	for i, a := range t.roots {
		for _, b := range t.roots[:i] {
			switch {
			case a.name == b.name:
				return fmt.Errorf("two roots are named %s; name one NAME=DIR", a.name)
			case a.base.id == b.base.id:
				return fmt.Errorf("roots %s and %s are the same directory; grant it once", b.name, a.name)
			case sameOrBelow(a.base.real, b.base.real):
				nest(b, a)
			case sameOrBelow(b.base.real, a.base.real):
				nest(a, b)
			}
		}
	}
	return nil
}

func nest(outer, inner *root) {
	rel := filepath.ToSlash(strings.Trim(strings.TrimPrefix(inner.base.real, outer.base.real), string(os.PathSeparator)))
	outer.nested = append(outer.nested, overlap{inner, rel})
	inner.outer = append(inner.outer, overlap{outer, rel})
}

// Close lets the directories go, after the operations in flight have ended;
// these end soon, since each looks whether the tree is closed.
func (t *Tree) Close() error {
	if t.closed.Swap(true) {
		return nil
	}
	t.life.Lock()
	defer t.life.Unlock()
	t.closeRoots()
	return nil
}

func (t *Tree) closeRoots() {
	for _, r := range t.roots {
		r.base.close()
	}
}

// enter keeps the tree open for one operation; leave ends it.
func (t *Tree) enter(ctx context.Context) (leave func(), err error) {
	t.life.RLock()
	if err := t.alive(ctx); err != nil {
		t.life.RUnlock()
		return nil, err
	}
	return t.life.RUnlock, nil
}

// alive is asked again and again by whatever takes long.
func (t *Tree) alive(ctx context.Context) error {
	if t.closed.Load() {
		return workspace.Fail("cancelled", "the session's folders are closed")
	}
	return ctx.Err()
}

// SetRedactor sets what all text passes before it leaves; nil for nothing. It
// is set once the secret values are known, and may be replaced.
func (t *Tree) SetRedactor(r Redactor) {
	if r == nil {
		t.redact.Store(nil)
		return
	}
	t.redact.Store(&r)
}

func (t *Tree) redactor() Redactor {
	if r := t.redact.Load(); r != nil {
		return *r
	}
	return nil
}

// HostDir is the directory of a root on this host, for the sandbox and for
// rewriting output; "" for an unknown root. It is never shown to the provider.
func (t *Tree) HostDir(name string) string {
	if r := t.root(name); r != nil {
		return r.base.real
	}
	return ""
}

// Roots lists the names of the roots in the order they were granted.
func (t *Tree) Roots() []string {
	var names []string
	for _, r := range t.roots {
		names = append(names, r.name)
	}
	return names
}

// Moved lists the roots whose host path no longer leads to the directory that
// was granted. Operations on them are refused; the session should pause.
func (t *Tree) Moved() []string {
	t.life.RLock()
	defer t.life.RUnlock()
	var names []string
	for _, r := range t.roots {
		if !t.closed.Load() && r.base.moved() {
			names = append(names, r.name)
		}
	}
	return names
}

func (t *Tree) root(name string) *root {
	for _, r := range t.roots {
		if r.name == name {
			return r
		}
	}
	return nil
}
