package files

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/weftmesh/weft/workspace"
)

// Edit replaces exact text, all edits or none. The edits apply in order, each
// to the outcome of the one before.
func (t *Tree) Edit(ctx context.Context, q EditRequest) (EditResult, error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return EditResult{}, explain(err, q.Path.String())
	}
	defer leave()
	if err := t.checkEdit(&q); err != nil {
		return EditResult{}, err
	}
	w, err := t.openPlace(q.Path, false)
	if err != nil {
		return EditResult{}, explain(err, q.Path.String())
	}
	defer w.close()
	r, err := w.edit(ctx, &q)
	if err != nil {
		return EditResult{}, explain(err, q.Path.String())
	}
	return r, nil
}

func (t *Tree) checkEdit(q *EditRequest) error {
	if err := t.mayWrite(q.Path); err != nil {
		return err
	}
	if len(q.Edits) == 0 || len(q.Edits) > maxEdits {
		return badArgs("edits has 1 to %d entries", maxEdits)
	}
	for i, e := range q.Edits {
		switch {
		case e.Old == "":
			return badArgs("edit %d: old is empty; write_file makes new files", i+1)
		case e.Old == e.New:
			return badArgs("edit %d: old and new are the same", i+1)
		case len(e.Old) > maxWrite || len(e.New) > maxWrite:
			return workspace.Refuse(workspace.TooLarge, "edit %d: old and new are %d bytes at most", i+1, maxWrite)
		case !utf8.ValidString(e.Old) || !utf8.ValidString(e.New) || strings.Contains(e.New, "\x00"):
			return badArgs("edit %d: text is UTF-8 without NUL", i+1)
		case e.Count < 0 || e.All && e.Count != 0:
			return badArgs("edit %d: give a positive count, or all", i+1)
		}
	}
	return checkHash(q.IfSHA256)
}

func (w *place) edit(ctx context.Context, q *EditRequest) (EditResult, error) {
	if err := w.load(q.Path, q.IfSHA256, maxEdit); err != nil {
		return EditResult{}, err
	}
	if bytes.IndexByte(w.before[:min(len(w.before), sniffLen)], 0) >= 0 {
		return EditResult{}, workspace.Fail("binary", "%s is not text; change it by write_file with encoding=base64", q.Path)
	}
	redact := w.t.redactor()
	e := newEditing(q.Path, redact, w.before)
	for i, te := range q.Edits {
		if err := w.t.alive(ctx); err != nil {
			return EditResult{}, err
		}
		if err := e.apply(i, te); err != nil {
			return EditResult{}, err
		}
	}
	after := e.text
	if len(after) > maxEdit {
		return EditResult{}, workspace.Refuse(workspace.TooLarge, "the file would have %d bytes, the limit is %d", len(after), maxEdit)
	}
	if err := checkContent(w.before, after, false); err != nil {
		return EditResult{}, err
	}
	if !q.DryRun && !bytes.Equal(w.before, after) {
		if err := w.store(ctx, after, w.old.mode.Perm()); err != nil {
			return EditResult{}, err
		}
	}
	return w.editResult(q, redact, after, e.replaced), nil
}

func (w *place) editResult(q *EditRequest, redact Redactor, after []byte, replaced int) EditResult {
	r := EditResult{OldSHA256: sumOf(w.before), NewSHA256: sumOf(after),
		OldSize: int64(len(w.before)), NewSize: int64(len(after)), Replaced: replaced}
	diff := unified(q.Path.String(), newView(redact, w.before).out, newView(redact, after).out)
	r.Added, r.Removed = diffStat(diff)
	r.Kind = Text
	diff, r.Truncated = cutDiff(diff)
	r.Body = []byte(escapeInvalid(diff))
	r.Redacted = len(placeholder.FindAll(r.Body, -1))
	did := "edited"
	if q.DryRun {
		did = "would be edited"
	} else {
		r.SeveredLinks = w.severed()
	}
	var h strings.Builder
	fmt.Fprintf(&h, "%s %s replaced=%d size=%d sha256=%s old_sha256=%s lines=+%d/-%d", q.Path, did, replaced, r.NewSize, r.NewSHA256, r.OldSHA256, r.Added, r.Removed)
	severedField(&h, r.SeveredLinks)
	r.Header = h.String()
	return r
}

// editing is a text that edits are applied to.
type editing struct {
	path     workspace.Path
	redact   Redactor
	text     []byte
	secrets  []span // in text: never matched, so that no edit confirms a guess
	replaced int
}

// span is text[from:to].
type span struct{ from, to int }

func newEditing(p workspace.Path, redact Redactor, text []byte) *editing {
	e := &editing{path: p, redact: redact, text: text}
	for _, m := range newView(redact, text).marks {
		e.secrets = append(e.secrets, span{m.raw, m.rawEnd})
	}
	return e
}

// apply does one edit.
func (e *editing) apply(i int, te TextEdit) error {
	lf := crlfView(e.text, te.Old)
	found, overlap := e.find(lf, []byte(te.Old), te.All)
	want := max(te.Count, 1)
	if len(found) == 0 || !te.All && (len(found) != want || overlap) {
		return e.noMatch(i, te, found, want)
	}
	var out []byte
	var secrets []span
	pos, s := 0, 0
	for _, at := range found {
		repl := []byte(te.New)
		if lf != nil {
			repl = lf.endings(at, repl)
		}
		for ; s < len(e.secrets) && e.secrets[s].from < at.from; s++ {
			shift := len(out) - pos
			secrets = append(secrets, span{e.secrets[s].from + shift, e.secrets[s].to + shift})
		}
		out = append(out, e.text[pos:at.from]...)
		out = append(out, repl...)
		pos = at.to
	}
	shift := len(out) - pos
	for ; s < len(e.secrets); s++ {
		secrets = append(secrets, span{e.secrets[s].from + shift, e.secrets[s].to + shift})
	}
	if len(out)+len(e.text)-pos > 2*maxEdit {
		return workspace.Refuse(workspace.TooLarge, "edit %d makes the file bigger than %d bytes", i+1, maxEdit)
	}
	e.text = append(out, e.text[pos:]...)
	e.secrets = secrets
	e.replaced += len(found)
	return nil
}

// find lists where old occurs outside of secrets. To replace every one, these
// are taken from the left without overlap; otherwise all are listed, since with
// an overlap it would be unclear which are meant.
func (e *editing) find(lf *lfView, old []byte, every bool) (found []span, overlap bool) {
	text := e.text
	if lf != nil {
		text = lf.text
	}
	for pos := 0; ; {
		i := bytes.Index(text[pos:], old)
		if i < 0 {
			return found, overlap
		}
		at := span{pos + i, pos + i + len(old)}
		if lf != nil {
			at = span{lf.raw(at.from), lf.raw(at.to)}
		}
		pos += i + 1
		if e.secret(at) {
			continue
		}
		overlap = overlap || len(found) > 0 && found[len(found)-1].to > at.from
		found = append(found, at)
		if every {
			pos += len(old) - 1
		}
	}
}

func (e *editing) secret(at span) bool {
	for _, s := range e.secrets {
		if s.from < at.to && s.to > at.from {
			return true
		}
	}
	return false
}
