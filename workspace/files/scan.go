package files

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
)

// deniedSet is what a scan found. It is immutable.
type deniedSet struct {
	ids  map[ident]bool
	inos map[[2]uint64]bool // device and inode of ids, as a directory tells them
	// paths are the denied names, a directory for all that is in it.
	paths []DeniedPath
	// secrets are the regular files with secret names, for SecretValues.
	secrets []DeniedPath
	// config are in-tree files that git's configuration points at: what is
	// written there runs at the owner's next git command.
	config map[string][]string // root name to folded paths
}

func newDeniedSet() *deniedSet {
	return &deniedSet{ids: map[ident]bool{}, inos: map[[2]uint64]bool{}, config: map[string][]string{}}
}

func (d *deniedSet) has(id ident) bool { return d.ids[id] }

// maybe is has without the birth time.
func (d *deniedSet) maybe(dev, ino uint64) bool { return d.inos[[2]uint64{dev, ino}] }

func (d *deniedSet) add(id ident) {
	d.ids[id] = true
	d.inos[[2]uint64{id.dev, id.ino}] = true
}

func (d *deniedSet) configured(r *root, rel string) bool {
	rel = foldPath(rel)
	for _, c := range d.config[r.name] {
		if rel == c || strings.HasPrefix(rel, c+"/") {
			return true
		}
	}
	return false
}

// Rescan looks again for denied names and for denied files under other names.
// The requester calls it after each command and whenever it learns that the
// tree changed by itself. What had a denied name once stays denied under every
// name it has now.
func (t *Tree) Rescan(ctx context.Context) error {
	leave, err := t.enter(ctx)
	if err != nil {
		return explain(err, "")
	}
	defer leave()
	if err := t.rescan(ctx); err != nil {
		return explain(err, "the granted folders")
	}
	return nil
}

// Denied scans again and returns the names that no tool may touch, in order: the
// sandbox masks them. Names inside .git are left out, as the sandbox treats .git
// as a whole.
func (t *Tree) Denied(ctx context.Context) ([]DeniedPath, error) {
	if err := t.Rescan(ctx); err != nil {
		return nil, err
	}
	return slices.Clone(t.denied.Load().paths), nil
}

func (t *Tree) rescan(ctx context.Context) error {
	t.scanning.Lock()
	defer t.scanning.Unlock()
	s := scan{t: t, ctx: ctx, old: t.denied.Load(), now: newDeniedSet()}
	if s.old == nil {
		s.old = newDeniedSet()
	}
	for _, r := range t.roots {
		dir, err := r.base.pin("")
		if err != nil {
			return err
		}
		err = s.dir(r, dir, "", false, false, 0)
		dir.close()
		if err != nil {
			return err
		}
	}
	slices.SortFunc(s.now.paths, compareDenied)
	t.denied.Store(s.now)
	return nil
}

func compareDenied(a, b DeniedPath) int {
	if c := strings.Compare(a.Root, b.Root); c != 0 {
		return c
	}
	return strings.Compare(a.Rel, b.Rel)
}

// scan is one walk over all roots. It reads names, and describes only what is
// denied.
type scan struct {
	t        *Tree
	ctx      context.Context
	old, now *deniedSet
	entries  int
}

// dir goes through a directory. inside says that it lies in a denied one,
// secret that the denylist (not a glob) denies it.
func (s *scan) dir(r *root, dir *pin, rel string, inside, secret bool, depth int) error {
	if depth > scanDepth {
		return nil
	}
	var es []entry
	if err := dir.entries(func(e entry) bool { es = append(es, e); s.entries++; return s.entries <= scanEntries }); err != nil {
		return nil // what the requester can't read, no tool reads
	}
	if s.entries > scanEntries || len(s.now.ids) > scanDenied {
		return fmt.Errorf("more than %d entries or %d denied ones; grant a smaller folder", scanEntries, scanDenied)
	}
	if err := s.t.alive(s.ctx); err != nil {
		return err
	}
	for _, e := range es {
		if err := s.entry(r, dir, path.Join(rel, e.name), e, inside, secret, depth); err != nil {
			return err
		}
	}
	return nil
}

func (s *scan) entry(r *root, dir *pin, rel string, e entry, inside, secret bool, depth int) error {
	known := !inside && s.old.maybe(dir.id.dev, e.ino)
	if !inside {
		secret = s.t.secretEntry(r, rel)
		inside = secret || s.t.excludedEntry(r, rel)
	}
	isDir := e.mode.IsDir()
	if inside || known || e.untyped {
		st, err := dir.statChild(e.name)
		if err != nil {
			return nil
		}
		isDir = st.dir()
		// What was denied under another name is denied under this one.
		if s.old.has(st.id) && !inside {
			inside, secret = true, true
		}
		if inside {
			s.deny(r, rel, st, secret)
		}
	}
	if !isDir {
		return nil
	}
	sub, err := dir.child(e.name)
	if err != nil {
		return nil
	}
	defer sub.close()
	if e.name == ".git" {
		s.now.config[r.name] = append(s.now.config[r.name], gitConfigured(sub, strings.TrimSuffix(rel, ".git"))...)
	}
	return s.dir(r, sub, rel, inside, secret, depth+1)
}

// deny records a denied object.
func (s *scan) deny(r *root, rel string, st info, secret bool) {
	s.now.add(st.id)
	d := DeniedPath{Root: r.name, Rel: rel, Dir: st.dir()}
	if secret && st.regular() {
		s.now.secrets = append(s.now.secrets, d)
	}
	if !inGit(rel) && !s.covered(d) {
		s.now.paths = append(s.now.paths, d)
	}
}

// covered reports whether the directory that was denied last holds d: the scan
// goes depth first.
func (s *scan) covered(d DeniedPath) bool {
	if len(s.now.paths) == 0 {
		return false
	}
	last := s.now.paths[len(s.now.paths)-1]
	return last.Dir && last.Root == d.Root && strings.HasPrefix(d.Rel, last.Rel+"/")
}

func inGit(rel string) bool {
	return rel == ".git" || strings.HasPrefix(rel, ".git/") || strings.Contains(rel, "/.git/")
}

// secretEntry and excludedEntry decide for an entry whose parent isn't denied,
// in its own root and in those around it.
func (t *Tree) secretEntry(r *root, rel string) bool {
	for v := range r.views(rel) {
		if v.rel != "" && t.rules.secretTail(strings.Split(foldPath(v.rel), "/")) {
			return true
		}
	}
	return false
}

func (t *Tree) excludedEntry(r *root, rel string) bool {
	for v := range r.views(rel) {
		if v.root.scope.excluded(v.rel) {
			return true
		}
	}
	return false
}

// secretFiles is the regular files with secret names.
func (t *Tree) secretFiles() []DeniedPath { return slices.Clone(t.denied.Load().secrets) }
