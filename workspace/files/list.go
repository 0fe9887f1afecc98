package files

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/weftmesh/weft/workspace"
)

// List returns the entries of a directory, each directory before what is in it.
func (t *Tree) List(ctx context.Context, q ListRequest) (ListResult, error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return ListResult{}, explain(err, q.Path.String())
	}
	defer leave()
	if err := q.normalise(); err != nil {
		return ListResult{}, err
	}
	o, err := t.resolveDir(q.Path)
	if err != nil {
		return ListResult{}, err
	}
	defer o.close()
	l := &listing{q: &q, base: o.rel}
	l.res.Kind = Text
	w := walker{t: t, ctx: ctx, deadline: time.Now().Add(listTime), ignore: !q.IncludeIgnored, visit: l.visit}
	if err := w.walk(o); err != nil {
		return ListResult{}, explain(err, q.Path.String())
	}
	r := &l.res
	if w.partial && r.Next == "" && len(r.Entries) > 0 {
		r.Next = r.Entries[len(r.Entries)-1].Path
	}
	r.Omitted, r.Ignored, r.Truncated = w.omitted, w.ignored, r.Next != "" || w.partial
	next := "truncated=no"
	switch {
	case r.Next != "":
		next = truncated("cursor=" + r.Next)
	case w.partial:
		next = truncated("list a smaller directory")
	}
	r.Header = fmt.Sprintf("%s entries=%d omitted=%d ignored=%d %s", q.Path, len(r.Entries), r.Omitted, r.Ignored, next)
	return *r, nil
}

func (q *ListRequest) normalise() error {
	if q.Depth == 0 {
		q.Depth = 1
	}
	if q.Limit == 0 {
		q.Limit = listDefault
	}
	if q.Depth < 1 || q.Depth > listDepth || q.Limit < 1 || q.Limit > listMax {
		return badArgs("depth is 1 to %d, limit 1 to %d", listDepth, listMax)
	}
	if q.Cursor != "" {
		if _, refusal := workspace.ParsePath("r/" + q.Cursor); refusal != nil {
			return badArgs("cursor is not one that list_dir gave")
		}
	}
	return nil
}

// listing collects one page.
type listing struct {
	q    *ListRequest
	base string
	res  ListResult
}

func (l *listing) visit(s step) (bool, error) {
	rel := strings.TrimPrefix(strings.TrimPrefix(s.rel, l.base), "/")
	descend := s.depth < l.q.Depth
	if l.q.Cursor != "" {
		if c := comparePaths(rel, l.q.Cursor); c <= 0 {
			onWay := rel == l.q.Cursor || strings.HasPrefix(l.q.Cursor, rel+"/")
			return descend && onWay, nil
		}
	}
	e := Entry{Path: rel, Type: typeName(s.mode)}
	size := "-"
	switch e.Type {
	case "dir", "symlink":
	case "file":
		st, err := s.parent.statChild(s.name)
		if err != nil {
			return false, nil // gone meanwhile
		}
		e.Size = st.size
		size = fmt.Sprint(st.size)
	default:
		e.Type = "special"
	}
	line := fmt.Sprintf("%s %s %s\n", e.Type, size, rel)
	r := &l.res
	if len(r.Entries) == l.q.Limit || len(r.Body)+len(line) > maxBudget {
		r.Next = r.Entries[len(r.Entries)-1].Path
		return false, errStop
	}
	r.Entries = append(r.Entries, e)
	r.Body = append(r.Body, line...)
	return descend, nil
}

// comparePaths orders paths as the walk meets them.
func comparePaths(a, b string) int {
	for {
		x, restA, moreA := strings.Cut(a, "/")
		y, restB, moreB := strings.Cut(b, "/")
		if c := strings.Compare(x, y); c != 0 {
			return c
		}
		switch {
		case !moreA && !moreB:
			return 0
		case !moreA:
			return -1
		case !moreB:
			return 1
		}
		a, b = restA, restB
	}
}
