package files

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/weftmesh/weft/workspace"
)

// Stat describes a path. A symbolic link is described itself; its target is
// told only if the caller could name it.
func (t *Tree) Stat(ctx context.Context, q StatRequest) (StatResult, error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return StatResult{}, explain(err, q.Path.String())
	}
	defer leave()
	o, err := t.resolve(q.Path, wantAny)
	if err != nil {
		return StatResult{}, err
	}
	defer o.close()
	r := StatResult{Type: typeName(o.mode), Size: o.size, Mode: uint32(o.mode.Perm()), MtimeNS: o.mtime, Nlink: o.nlink}
	r.Kind = Text
	switch {
	case o.regular():
		if r.SHA256, err = t.hash(ctx, o); err != nil {
			return StatResult{}, explain(err, q.Path.String())
		}
	case o.link():
		r.Target = t.linkTarget(o)
		r.Size = 0 // the length of a target that may not be told
	}
	r.Ignored = t.ignored(o)
	r.Writable = t.writable(q.Path, o)
	r.Header = r.header(q.Path)
	return r, nil
}

func (r *StatResult) header(p workspace.Path) string {
	var h strings.Builder
	fmt.Fprintf(&h, "%s type=%s size=%d mode=%04o mtime_ns=%d", p, r.Type, r.Size, r.Mode, r.MtimeNS)
	if r.Type == "file" {
		sum := r.SHA256
		if sum == "" {
			sum = "-"
		}
		fmt.Fprintf(&h, " sha256=%s", sum)
	}
	fmt.Fprintf(&h, " nlink=%d ignored=%s writable=%s", r.Nlink, yes(r.Ignored), yes(r.Writable))
	if r.Type == "symlink" {
		target := r.Target
		if target == "" {
			target = "-"
		}
		fmt.Fprintf(&h, " target=%s", target)
	}
	return h.String()
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// hash is the sha256 of a file of at most maxHashed bytes.
func (t *Tree) hash(ctx context.Context, o *object) (string, error) {
	if o.size > maxHashed {
		return "", nil
	}
	f, err := o.open()
	if err != nil {
		return "", err
	}
	defer f.close()
	facts, err := t.survey(ctx, o.pin, f)
	if err != nil {
		return "", err
	}
	return facts.sha256, nil
}

// linkTarget is the virtual path that a link leads to, or "" if it is outside
// the root, denied or missing: these have one answer.
func (t *Tree) linkTarget(o *object) string {
	to, err := o.target()
	if err != nil || to == "" {
		return ""
	}
	if path.IsAbs(to) {
		rel, ok := strings.CutPrefix(path.Clean(to), strings.TrimSuffix(o.root.base.real, "/")+"/")
		if !ok {
			return ""
		}
		to = rel
	} else {
		to = path.Join(path.Dir(o.rel), to)
	}
	p, refusal := workspace.ParsePath(path.Join(o.root.name, "./"+to))
	if to == ".." || strings.HasPrefix(to, "../") {
		return ""
	}
	if refusal != nil {
		return ""
	}
	end, err := t.resolve(p, wantAny)
	if err != nil {
		return ""
	}
	defer end.close()
	return end.String()
}

// writable reports whether write_file could change a file or make one in a
// directory.
func (t *Tree) writable(p workspace.Path, o *object) bool {
	right, refusal := t.Right(p)
	if refusal != nil || !right.Has(workspace.Write) || t.protected(o.root, o.rel) {
		return false
	}
	if o.dir() {
		return o.pin.writable()
	}
	if !o.regular() {
		return false
	}
	parent, _, _ := cutLast(o.rel)
	dir, err := o.root.base.pin(parent)
	if err != nil {
		return false
	}
	defer dir.close()
	return dir.writable()
}
