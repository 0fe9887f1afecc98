package files

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/text/unicode/norm"
)

// ErrPattern is wrapped when an include or exclude glob of a root is malformed.
var ErrPattern = errors.New("bad pattern")

// checkGlob bounds what a pattern can cost. Braces multiply, since each
// alternative is tried with the rest of the pattern; stars only add.
func checkGlob(p string) error {
	switch {
	case p == "":
		return fmt.Errorf("empty pattern")
	case len(p) > maxPattern:
		return fmt.Errorf("pattern of %d bytes, the limit is %d", len(p), maxPattern)
	case strings.HasPrefix(p, "/"):
		return fmt.Errorf("pattern starts with a slash; patterns are relative, as in **/*.go")
	case !doublestar.ValidatePattern(p):
		return fmt.Errorf("%w; write it like **/*.go or src/{a,b}/*.ts", ErrPattern)
	}
	ways, stars := 1, strings.Count(p, "**")
	for rest := p; ; {
		i := strings.IndexByte(rest, '{')
		if i < 0 {
			break
		}
		rest = rest[i+1:]
		group, _, _ := strings.Cut(rest, "}")
		if ways *= 1 + strings.Count(group, ","); ways > 64 {
			return fmt.Errorf("the braces stand for more than 64 alternatives")
		}
		if strings.Count(p, "{") > 8 {
			return fmt.Errorf("more than 8 braces")
		}
	}
	if stars > 8 || strings.Count(p, "*") > 32 || strings.Count(p, "/") > 64 {
		return fmt.Errorf("more than 8 **, 32 stars or 64 slashes")
	}
	for c := range strings.SplitSeq(p, "/") {
		if c == ".." || c == "." {
			return fmt.Errorf("%q is not allowed in a pattern", c)
		}
	}
	return nil
}

// anyDepth gives a pattern without a slash the meaning it has in .gitignore.
func anyDepth(p string) string {
	p = strings.TrimSuffix(p, "/")
	if strings.Contains(p, "/") {
		return p
	}
	return "**/" + p
}

// scope is the include and exclude globs of a root.
type scope struct {
	include []string // composed
	exclude []string // folded: like the denylist, it may over-block
}

func newScope(include, exclude []string) (scope, error) {
	var s scope
	for _, p := range include {
		if err := checkGlob(p); err != nil {
			return s, fmt.Errorf("include %q: %w", p, err)
		}
		s.include = append(s.include, norm.NFC.String(anyDepth(p)))
	}
	for _, p := range exclude {
		if err := checkGlob(p); err != nil {
			return s, fmt.Errorf("exclude %q: %w", p, err)
		}
		s.exclude = append(s.exclude, foldPath(anyDepth(p)))
	}
	return s, nil
}

// excluded reports whether rel or a directory above it is excluded.
func (s *scope) excluded(rel string) bool {
	if len(s.exclude) == 0 || rel == "" {
		return false
	}
	rel = foldPath(rel)
	for ; rel != "." && rel != "/"; rel = path.Dir(rel) {
		for _, p := range s.exclude {
			if doublestar.MatchUnvalidated(p, rel) {
				return true
			}
		}
	}
	return false
}

// included reports whether a file of that name is granted.
func (s *scope) included(rel string) bool {
	if len(s.include) == 0 {
		return true
	}
	for rel = norm.NFC.String(rel); rel != "." && rel != "/" && rel != ""; rel = path.Dir(rel) {
		for _, p := range s.include {
			if doublestar.MatchUnvalidated(p, rel) {
				return true
			}
		}
	}
	return false
}

// leads reports whether a directory of that name could hold a granted file.
func (s *scope) leads(rel string) bool {
	if rel == "" || s.included(rel) {
		return true
	}
	comps := strings.Split(norm.NFC.String(rel), "/")
	for _, p := range s.include {
		if leadsTo(strings.Split(p, "/"), comps) {
			return true
		}
	}
	return false
}

func leadsTo(pattern, comps []string) bool {
	for i, c := range comps {
		if i >= len(pattern) {
			return false
		}
		// A brace may hold a slash, so the split says nothing: over-allow the
		// directory; its files are matched whole.
		if pattern[i] == "**" || strings.Contains(pattern[i], "{") {
			return true
		}
		if !doublestar.MatchUnvalidated(pattern[i], c) {
			return false
		}
	}
	return true
}
