package files

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Rules is the denylist. The zero value is no denylist at all, and OpenTree
// refuses it; start from DefaultRules.
type Rules struct {
	secret, protect, allow ruleSet
	reserved               []string
}

// tempPrefix starts the names of our temporary files. The denylist has it, so
// that no tool lists, reads or makes one.
const tempPrefix = ".weft-tmp-"

// secretNames are never read, listed, searched or written. The first four are
// the seed's own; they are known to hit names like .env.example and
// foreign_key.go, which a requester may carve out by choice.
var secretNames = []string{
	".env*", "*_key*", ".ssh", "credentials*",
	"*.pem", "*.key", "id_*", ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".htpasswd",
	".git-credentials", ".docker/config.json", ".kube/config", ".aws", ".gnupg",
	"*.p12", "*.pfx", "*.jks", "*.keystore", "terraform.tfstate*",
	".weft*",
	// Remote URLs in git's configuration hold tokens.
	".git/config", ".git/config.worktree", ".git/modules/**/config", ".git/worktrees/**/config.worktree",
}

// protectedNames may be read but not written: what is in them runs on the
// requester's machine, at the requester's next git, editor or agent command.
var protectedNames = []string{
	".git", ".gitmodules", ".gitattributes",
	".claude", ".codex", ".gemini", ".cursor", ".mcp.json",
	".vscode/settings.json", ".vscode/tasks.json", ".vscode/launch.json", ".idea", ".devcontainer",
}

// DefaultRules is the denylist of reference/workspace.md, case 28 and 45.
func DefaultRules() Rules {
	r := Rules{}
	r.secret.add(secretNames...)
	r.protect.add(protectedNames...)
	return r
}

// Deny adds secret names. A name is matched against every component of a path,
// or against neighbouring components if it has slashes; * and ? match within a
// component, ** matches any number of components.
func (r Rules) Deny(names ...string) (Rules, error) {
	if err := checkNames(names); err != nil {
		return r, err
	}
	r.secret = r.secret.clone()
	r.secret.add(names...)
	return r, nil
}

// Allow carves names out of the secret names, the requester's explicit choice.
// What else is denied in them stays denied.
func (r Rules) Allow(names ...string) (Rules, error) {
	if err := checkNames(names); err != nil {
		return r, err
	}
	r.allow = r.allow.clone()
	r.allow.add(names...)
	return r, nil
}

// Reserve names host directories (the node's own home) that no root may
// contain or lie in.
func (r Rules) Reserve(dirs ...string) Rules {
	r.reserved = append(slices.Clone(r.reserved), dirs...)
	return r
}

// Secret reports whether a path below a root is denied to every tool: it, or a
// directory above it, has a secret name.
func (r Rules) Secret(rel string) bool {
	return rel != "" && r.each(rel, r.secretTail)
}

// Protected reports whether a path below a root may not be written, even with
// the write right.
func (r Rules) Protected(rel string) bool {
	return rel != "" && r.each(rel, func(comps []string) bool { return r.protect.tail(comps) })
}

func (r Rules) each(rel string, denied func([]string) bool) bool {
	comps := strings.Split(foldPath(rel), "/")
	for i := range comps {
		if denied(comps[:i+1]) {
			return true
		}
	}
	return false
}

// secretTail decides for folded components whose parents have been decided.
func (r Rules) secretTail(comps []string) bool {
	return r.secret.tail(comps) && (r.allow.empty() || strings.HasPrefix(comps[len(comps)-1], tempPrefix) || !r.allow.tail(comps))
}

func checkNames(names []string) error {
	for _, n := range names {
		for c := range strings.SplitSeq(n, "/") {
			if _, err := path.Match(c, ""); err != nil || c == "" || len(n) > maxPattern {
				return fmt.Errorf("bad name pattern %q: want names like .env* or .docker/config.json", n)
			}
		}
	}
	return nil
}

// ruleSet matches the end of a component list. Most rules are plain names or
// one star at an end, and a tree walk asks for every name it meets.
type ruleSet struct {
	exact                     map[string]bool
	prefix, suffix, contained []string
	globs                     []string
	paths                     [][]string
}

func (s *ruleSet) empty() bool {
	return len(s.exact)+len(s.prefix)+len(s.suffix)+len(s.contained)+len(s.globs)+len(s.paths) == 0
}

func (s *ruleSet) clone() ruleSet {
	c := ruleSet{exact: map[string]bool{}, prefix: slices.Clone(s.prefix), suffix: slices.Clone(s.suffix),
		contained: slices.Clone(s.contained), globs: slices.Clone(s.globs), paths: slices.Clone(s.paths)}
	for k := range s.exact {
		c.exact[k] = true
	}
	return c
}

func (s *ruleSet) add(names ...string) {
	if s.exact == nil {
		s.exact = map[string]bool{}
	}
	for _, n := range names {
		n = foldPath(n)
		mid := strings.Trim(n, "*")
		plain := !strings.ContainsAny(mid, "*?[\\")
		before, after := strings.HasPrefix(n, "*"), strings.HasSuffix(n, "*")
		switch {
		case strings.Contains(n, "/"):
			s.paths = append(s.paths, strings.Split(n, "/"))
		case plain && before && after:
			s.contained = append(s.contained, mid)
		case plain && before:
			s.suffix = append(s.suffix, mid)
		case plain && after:
			s.prefix = append(s.prefix, mid)
		case plain:
			s.exact[n] = true
		default:
			s.globs = append(s.globs, n)
		}
	}
}

func (s *ruleSet) tail(comps []string) bool {
	base := comps[len(comps)-1]
	if s.exact[base] {
		return true
	}
	for _, p := range s.prefix {
		if strings.HasPrefix(base, p) {
			return true
		}
	}
	for _, p := range s.suffix {
		if strings.HasSuffix(base, p) {
			return true
		}
	}
	for _, p := range s.contained {
		if strings.Contains(base, p) {
			return true
		}
	}
	for _, g := range s.globs {
		if ok, _ := path.Match(g, base); ok {
			return true
		}
	}
	for _, p := range s.paths {
		if matchTail(p, comps) {
			return true
		}
	}
	return false
}

// matchTail matches a pattern of components against the end of comps.
func matchTail(pattern, comps []string) bool {
	if len(pattern) == 0 {
		return true
	}
	last := pattern[len(pattern)-1]
	if last == "**" {
		for i := len(comps); i >= 0; i-- {
			if matchTail(pattern[:len(pattern)-1], comps[:i]) {
				return true
			}
		}
		return false
	}
	if len(comps) == 0 {
		return false
	}
	ok, _ := path.Match(last, comps[len(comps)-1])
	return ok && matchTail(pattern[:len(pattern)-1], comps[:len(comps)-1])
}
