package files

import (
	"strings"

	"github.com/weftmesh/weft/workspace"
)

// want says what the caller will do with a path, as far as it decides which
// names are in the grant.
type want uint8

const (
	wantAny  want = iota // a granted file, or a directory that may lead to one
	wantFile             // a granted file
	wantDir              // a directory
)

// find is the root of a path.
func (t *Tree) find(p workspace.Path) (*root, *workspace.Refusal) {
	if r := t.root(p.Root()); r != nil {
		return r, nil
	}
	return nil, workspace.Refuse(workspace.OutsideGrant, "no root is named %q; the roots are %s", p.Root(), strings.Join(t.Roots(), ", "))
}

// Right is what may be done at a path, with OutsideGrant for an unknown root.
// Where roots are nested, the path must be allowed by the root it is named by
// and by every root nested around it further down, so the most specific grant
// can only narrow. It doesn't touch the disk.
func (t *Tree) Right(p workspace.Path) (workspace.Right, *workspace.Refusal) {
	r, refusal := t.find(p)
	if refusal != nil {
		return 0, refusal
	}
	right := r.rights
	for _, n := range r.nested {
		if _, ok := below(p.Rel(), n.rel); ok {
			right &= n.root.rights
		}
	}
	return right, nil
}

// CheckName refuses a path that no tool may touch, by its name only: the answer
// is the same whether or not it exists. Code SecretPath is the denylist's,
// OutsideGrant the include and exclude globs'.
func (t *Tree) CheckName(p workspace.Path) *workspace.Refusal {
	r, refusal := t.find(p)
	if refusal != nil {
		return refusal
	}
	return t.checkName(r, p.Rel(), wantAny)
}

// CheckWrite is CheckName for tools that write: it also refuses names that may
// only be read, since the requester's git, editor or agent runs what is in
// them, and files outside the include globs.
func (t *Tree) CheckWrite(p workspace.Path) *workspace.Refusal {
	r, refusal := t.find(p)
	if refusal != nil {
		return refusal
	}
	if refusal := t.checkName(r, p.Rel(), wantFile); refusal != nil {
		return refusal
	}
	if t.protected(r, p.Rel()) {
		return workspace.Refuse(workspace.SecretPath, "%s is read-only in every session: git, editor and agent settings can run code on this machine", p)
	}
	return nil
}

func (t *Tree) protected(r *root, rel string) bool {
	d := t.denied.Load()
	for v := range r.views(rel) {
		if t.rules.Protected(v.rel) || d != nil && d.configured(v.root, v.rel) {
			return true
		}
	}
	return false
}

func (t *Tree) checkName(r *root, rel string, w want) *workspace.Refusal {
	for v := range r.views(rel) {
		if t.rules.Secret(v.rel) {
			return secretRefusal(r, rel)
		}
	}
	for v := range r.views(rel) {
		if v.root.scope.excluded(v.rel) || !v.outer && !v.root.scope.grants(v.rel, w) {
			return scopeRefusal(r, rel)
		}
	}
	return nil
}

// grants applies the include globs. The root itself is a directory.
func (s *scope) grants(rel string, w want) bool {
	if w == wantFile {
		return s.included(rel)
	}
	return s.leads(rel)
}

func secretRefusal(r *root, rel string) *workspace.Refusal {
	return workspace.Refuse(workspace.SecretPath, "%s is on the denylist of names that may hold secrets; work without it, whether or not it exists", virtual(r, rel))
}

func scopeRefusal(r *root, rel string) *workspace.Refusal {
	return workspace.Refuse(workspace.OutsideGrant, "%s is outside the parts of %s that were granted; workspace_info lists them", virtual(r, rel), r.name)
}

func virtual(r *root, rel string) string {
	if rel == "" {
		return r.name
	}
	return r.name + "/" + rel
}

// nameView is a path as one of the roots that hold it sees it. outer marks a
// root above the one the path was named by.
type nameView struct {
	root  *root
	rel   string
	outer bool
}

// views yields the path as its own root, each nested root on its way and each
// outer root see it.
func (r *root) views(rel string) func(func(nameView) bool) {
	return func(yield func(nameView) bool) {
		if !yield(nameView{r, rel, false}) {
			return
		}
		for _, n := range r.nested {
			if rest, ok := below(rel, n.rel); ok && !yield(nameView{n.root, rest, false}) {
				return
			}
		}
		for _, o := range r.outer {
			if !yield(nameView{o.root, strings.TrimSuffix(o.rel+"/"+rel, "/"), true}) {
				return
			}
		}
	}
}

// below cuts a directory off a path that is it or lies in it. The comparison is
// folded, as nested roots may only narrow.
func below(rel, dir string) (rest string, ok bool) {
	if len(rel) >= len(dir) && rel[:len(dir)] == dir {
		if len(rel) == len(dir) {
			return "", true
		}
		return rel[len(dir)+1:], rel[len(dir)] == '/'
	}
	n := strings.Count(dir, "/") + 1
	comps := strings.SplitN(rel, "/", n+1)
	if len(comps) < n || foldPath(strings.Join(comps[:n], "/")) != foldPath(dir) {
		return "", false
	}
	if len(comps) == n {
		return "", true
	}
	return comps[n], true
}
