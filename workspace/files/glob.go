package files

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/text/unicode/norm"

	"github.com/weftmesh/weft/workspace"
)

// Glob returns the files below a directory whose path matches a pattern. A
// pattern that starts with a denied name is refused like the name; elsewhere
// denied names just don't match.
func (t *Tree) Glob(ctx context.Context, q GlobRequest) (GlobResult, error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return GlobResult{}, explain(err, q.Path.String())
	}
	defer leave()
	if err := q.normalise(); err != nil {
		return GlobResult{}, err
	}
	g := &globbing{q: &q, pattern: norm.NFC.String(q.Pattern)}
	g.comps = strings.Split(g.pattern, "/")
	w := walker{t: t, ctx: ctx, deadline: time.Now().Add(globTime), ignore: !q.IncludeIgnored, visit: g.visit}
	start, err := g.start(t)
	if err != nil {
		return GlobResult{}, err
	}
	if start != nil {
		defer start.close()
		if err := w.walk(start); err != nil {
			return GlobResult{}, explain(err, q.Path.String())
		}
	}
	return g.result(&w), nil
}

func (q *GlobRequest) normalise() error {
	if q.Limit == 0 {
		q.Limit = globDefault
	}
	if q.Limit < 1 || q.Limit > globMax {
		return badArgs("limit is 1 to %d", globMax)
	}
	if q.Sort != "" && q.Sort != "path" && q.Sort != "mtime" {
		return badArgs("sort is path or mtime")
	}
	if err := checkGlob(q.Pattern); err != nil {
		return badArgs("%s", err)
	}
	return nil
}

// globbing collects the matches.
type globbing struct {
	q       *GlobRequest
	pattern string
	comps   []string
	base    string // of the request's path, below the root
	found   []match
	more    bool
}

type match struct {
	rel   string
	mtime int64
}

// start is the directory below which the pattern can match: the pattern's fixed
// beginning needs no walk. It is nil if there is no such directory.
func (g *globbing) start(t *Tree) (*object, error) {
	o, err := t.resolveDir(g.q.Path)
	if err != nil {
		return nil, err
	}
	g.base = o.rel
	fixed, _ := doublestar.SplitPattern(g.pattern)
	if fixed == "." || strings.ContainsAny(fixed, `\{}[]?*`) {
		return o, nil
	}
	defer o.close()
	p, refusal := g.q.Path.Join(fixed)
	if refusal != nil {
		return nil, refusal
	}
	sub, err := t.resolveDir(p)
	if f, ok := err.(*workspace.Failure); ok && (f.Reason == "not_found" || f.Reason == "not_directory") {
		return nil, nil
	}
	return sub, err
}

func (g *globbing) visit(s step) (bool, error) {
	rel := strings.TrimPrefix(strings.TrimPrefix(s.rel, g.base), "/")
	if !isASCII(rel) {
		rel = norm.NFC.String(rel)
	}
	if s.mode.IsDir() {
		return leadsTo(g.comps, strings.Split(rel, "/")), nil
	}
	if !s.mode.IsRegular() || !doublestar.MatchUnvalidated(g.pattern, rel) {
		return false, nil
	}
	m := match{rel: s.rel}
	if g.q.Sort == "mtime" {
		st, err := s.parent.statChild(s.name)
		if err != nil {
			return false, nil
		}
		m.mtime = st.mtime
	} else if len(g.found) == g.q.Limit {
		g.more = true
		return false, errStop
	}
	g.found = append(g.found, m)
	return false, nil
}

func (g *globbing) result(w *walker) GlobResult {
	if g.q.Sort == "mtime" {
		slices.SortStableFunc(g.found, func(a, b match) int { return int(min(1, max(-1, b.mtime-a.mtime))) })
	}
	var r GlobResult
	var body bytes.Buffer
	for _, m := range g.found {
		p := g.q.Path.Root() + "/" + m.rel
		if len(r.Paths) == g.q.Limit || body.Len()+len(p) >= maxBudget {
			g.more = true
			break
		}
		r.Paths = append(r.Paths, p)
		body.WriteString(p)
		body.WriteByte('\n')
	}
	r.Kind, r.Body = Text, body.Bytes()
	r.Omitted, r.Ignored, r.Truncated = w.omitted, w.ignored, g.more || w.partial
	next := "truncated=no"
	if r.Truncated {
		next = truncated("narrow the pattern or the path")
	}
	r.Header = fmt.Sprintf("%s matches=%d omitted=%d ignored=%d %s", g.q.Path, len(r.Paths), r.Omitted, r.Ignored, next)
	return r
}
