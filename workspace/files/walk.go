package files

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weftmesh/weft/workspace"
)

// walker goes through a directory by handles, in the order of names, for list,
// glob and grep. It shows only what the session may see, and never follows a
// link or crosses a mount.
type walker struct {
	t        *Tree
	ctx      context.Context
	deadline time.Time
	ignore   bool // leave out what git ignores
	// visit is called for each entry that may be seen. It returns whether to go
	// into a directory, and errStop to end the walk.
	visit func(step) (descend bool, err error)

	visited, omitted, ignored int
	// partial says that a limit ended the walk early.
	partial bool
}

// step is one entry. parent is pinned during the visit only.
type step struct {
	parent *pin
	entry
	rel   string // below the root
	depth int    // 1 for the entries of the first directory
}

var errStop = errors.New("stop")

// walk goes through a directory. An error is the context's or the first
// directory's.
func (w *walker) walk(o *object) error {
	g := &ignores{}
	if w.ignore && o.rel != "" {
		comps := strings.Split(o.rel, "/")
		for i := range comps {
			rel := strings.Join(comps[:i], "/")
			dir, err := o.root.base.pin(rel)
			if err != nil {
				return err
			}
			g = g.with(w.t, o.root, dir, rel)
			dir.close()
		}
	}
	var comps []string
	if o.rel != "" {
		comps = strings.Split(o.rel, "/")
	}
	err := w.dir(o.root, o.pin, comps, g, 1)
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

// over ends the walk when its time or number of entries is used up.
func (w *walker) over() error {
	if err := w.t.alive(w.ctx); err != nil {
		return err
	}
	if w.visited > walkEntries || time.Now().After(w.deadline) {
		w.partial = true
		return errStop
	}
	return nil
}

func (w *walker) dir(r *root, dir *pin, comps []string, g *ignores, depth int) error {
	rel := strings.Join(comps, "/")
	if w.ignore {
		g = g.with(w.t, r, dir, rel)
	}
	var es []entry
	err := dir.entries(func(e entry) bool {
		es = append(es, e)
		w.visited++
		return w.visited <= walkEntries
	})
	if err != nil {
		if depth == 1 {
			return err
		}
		w.omitted++
		return nil
	}
	slices.SortFunc(es, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	for i, e := range es {
		if i%64 == 0 {
			if err := w.over(); err != nil {
				return err
			}
		}
		if err := w.entry(r, dir, append(comps[:len(comps):len(comps)], e.name), e, g, depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) entry(r *root, dir *pin, comps []string, e entry, g *ignores, depth int) error {
	rel := strings.Join(comps, "/")
	if e.untyped {
		st, err := dir.statChild(e.name)
		if err != nil {
			w.omitted++
			return nil
		}
		e.mode = st.mode.Type()
	}
	if !w.t.visible(r, dir, rel, e) {
		w.omitted++
		return nil
	}
	if w.ignore && g.match(comps, e.mode.IsDir()) {
		w.ignored++
		return nil
	}
	descend, err := w.visit(step{dir, e, rel, depth})
	if err != nil || !descend || !e.mode.IsDir() || depth >= scanDepth {
		return err
	}
	sub, err := dir.child(e.name)
	if err != nil {
		// A mount, a race or a directory that the requester can't read either.
		w.omitted++
		return nil
	}
	defer sub.close()
	if !sub.dir() || w.t.denied.Load().has(sub.id) {
		w.omitted++
		return nil
	}
	return w.dir(r, sub, comps, g, depth+1)
}

// visible decides for an entry of a directory that is visible itself: a name
// that a path could spell, in the grant, not denied by name or inode.
func (t *Tree) visible(r *root, dir *pin, rel string, e entry) bool {
	if !spellable(e.name) {
		return false
	}
	w := wantFile
	if e.mode.IsDir() {
		w = wantDir
	}
	if t.checkName(r, rel, w) != nil {
		return false
	}
	d := t.denied.Load()
	if !d.maybe(dir.id.dev, e.ino) {
		return true
	}
	st, err := dir.statChild(e.name)
	return err == nil && !d.has(st.id)
}

// spellable reports whether workspace.ParsePath would take the name as a
// component. Most names are of these characters.
func spellable(name string) bool {
	plain := name != ""
	for i := 0; i < len(name) && plain; i++ {
		c := name[i]
		plain = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.' && i < len(name)-1
	}
	if plain {
		return true
	}
	if !utf8.ValidString(name) || strings.Contains(name, "/") {
		return false
	}
	_, refusal := workspace.ParsePath("r/" + name)
	return refusal == nil
}
