package files

import (
	"bytes"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
)

// Limits of one .gitignore file; what is beyond is not read.
const (
	ignoreSize  = 256 << 10
	ignoreLines = 2000
)

// ignores is the .gitignore patterns that apply in a directory, the more
// important later. Files above the granted root are not read, since the
// session can't see them; nor is the user's own excludes file.
type ignores struct {
	patterns []gitignore.Pattern
	matcher  gitignore.Matcher
}

// with adds the patterns of the directory's own .gitignore.
func (g *ignores) with(t *Tree, r *root, dir *pin, rel string) *ignores {
	names := []string{".gitignore"}
	if rel == "" {
		names = []string{".git/info/exclude", ".gitignore"}
	}
	added := g.patterns[:len(g.patterns):len(g.patterns)]
	for _, name := range names {
		added = append(added, readIgnore(t, dir, name, rel)...)
	}
	if len(added) == len(g.patterns) {
		return g
	}
	return &ignores{added, gitignore.NewMatcher(added)}
}

func readIgnore(t *Tree, dir *pin, name, rel string) []gitignore.Pattern {
	p, err := dir.child(name)
	if err != nil {
		return nil
	}
	defer p.close()
	if !p.regular() || t.denied.Load().has(p.id) {
		return nil
	}
	f, err := p.open()
	if err != nil {
		return nil
	}
	defer f.close()
	b := make([]byte, min(p.size, ignoreSize))
	n, _ := f.ReadAt(b, 0)
	var domain []string
	if rel != "" {
		domain = strings.Split(rel, "/")
	}
	var ps []gitignore.Pattern
	for line := range bytes.Lines(b[:n]) {
		s := strings.TrimRight(string(line), "\r\n")
		if s == "" || s[0] == '#' || len(s) > maxPattern || strings.Count(s, "**") > 8 || len(ps) == ignoreLines {
			continue
		}
		ps = append(ps, gitignore.ParsePattern(s, domain))
	}
	return ps
}

// match decides for an entry whose parent directory isn't ignored.
func (g *ignores) match(comps []string, dir bool) bool {
	return comps[len(comps)-1] == ".git" || g.matcher != nil && g.matcher.Match(comps, dir)
}

// ignored reports whether git ignores an object or a directory above it.
func (t *Tree) ignored(o *object) bool {
	if o.rel == "" {
		return false
	}
	comps := strings.Split(o.rel, "/")
	g := &ignores{}
	for i := range comps {
		rel := strings.Join(comps[:i], "/")
		dir, err := o.root.base.pin(rel)
		if err != nil {
			return false
		}
		g = g.with(t, o.root, dir, rel)
		dir.close()
		if g.match(comps[:i+1], i < len(comps)-1 || o.dir()) {
			return true
		}
	}
	return false
}
