package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"

	"github.com/weftmesh/weft/workspace"
)

// Write stores a whole file, or nothing. See WriteRequest.
func (t *Tree) Write(ctx context.Context, q WriteRequest) (WriteResult, error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return WriteResult{}, explain(err, q.Path.String())
	}
	defer leave()
	if err := t.checkWrite(&q); err != nil {
		return WriteResult{}, err
	}
	w, err := t.openPlace(q.Path, q.Mkdirs)
	if err != nil {
		return WriteResult{}, explain(err, q.Path.String())
	}
	defer w.close()
	if q.Mode == "create" {
		err = w.create(ctx, &q)
	} else {
		err = w.overwrite(ctx, &q)
	}
	if err != nil {
		return WriteResult{}, explain(err, q.Path.String())
	}
	return w.writeResult(&q), nil
}

func (t *Tree) checkWrite(q *WriteRequest) error {
	if err := t.mayWrite(q.Path); err != nil {
		return err
	}
	switch {
	case q.Mode != "create" && q.Mode != "overwrite":
		return badArgs("mode is create or overwrite")
	case q.Mode == "overwrite" && q.IfSHA256 == "":
		return badArgs("overwrite needs if_sha256, the hash of the bytes you saw; read_file and stat give it")
	case q.Mode == "create" && q.IfSHA256 != "":
		return badArgs("create makes a new file; if_sha256 is for overwrite")
	case len(q.Content) > maxWrite:
		return workspace.Refuse(workspace.TooLarge, "content of %d bytes, the limit is %d", len(q.Content), maxWrite)
	case !q.Raw && !utf8.Valid(q.Content):
		return badArgs("content is not UTF-8; send it with encoding=base64")
	case !q.Raw && bytes.IndexByte(q.Content, 0) >= 0:
		return badArgs("content has NUL bytes; send it with encoding=base64")
	}
	return checkHash(q.IfSHA256)
}

func checkHash(s string) error {
	if s == "" {
		return nil
	}
	if b, err := hex.DecodeString(s); err != nil || len(b) != sha256.Size || s != strings.ToLower(s) {
		return badArgs("if_sha256 is 64 lower case hex digits")
	}
	return nil
}

// mayWrite checks the right and the name.
func (t *Tree) mayWrite(p workspace.Path) error {
	right, refusal := t.Right(p)
	if refusal != nil {
		return refusal
	}
	if !right.Has(workspace.Write) {
		return workspace.Refuse(workspace.NoRight, "%s was granted for %s only", p, right)
	}
	if refusal := t.CheckWrite(p); refusal != nil {
		return refusal
	}
	if p.IsRoot() {
		return badArgs("%s is a root, not a file", p)
	}
	return nil
}

// content is what an overwrite or edit may store in the place of old bytes.
func checkContent(old, content []byte, raw bool) error {
	if addsPlaceholder(old, content) {
		return badArgs("the content has a [REDACTED] placeholder where the file has a secret; writing it would destroy the secret. Change only the text around it, with edit_file")
	}
	const replacement = "\ufffd"
	if n := bytes.Count(content, []byte(replacement)); !raw && n > 0 && n > bytes.Count(old, []byte(replacement)) {
		return badArgs("the content has U+FFFD, which stands for bytes that were lost on the way; read the file with encoding=base64")
	}
	return nil
}

// create makes a new file.
func (w *place) create(ctx context.Context, q *WriteRequest) error {
	if w.old != nil {
		return workspace.Fail("exists", "%s exists; to change it use edit_file, or mode=overwrite with if_sha256", q.Path)
	}
	if err := checkContent(nil, q.Content, q.Raw); err != nil {
		return err
	}
	mode := fs.FileMode(0o666)
	if q.Executable != nil && *q.Executable {
		mode = 0o777
	}
	return w.store(ctx, q.Content, mode)
}

// overwrite replaces the bytes that the caller saw.
func (w *place) overwrite(ctx context.Context, q *WriteRequest) error {
	if err := w.load(q.Path, q.IfSHA256, maxHashed); err != nil {
		return err
	}
	if err := checkContent(w.before, q.Content, q.Raw); err != nil {
		return err
	}
	mode := w.old.mode.Perm()
	if q.Executable != nil {
		mode &^= 0o111
		if *q.Executable {
			mode |= mode & 0o444 >> 2
		}
	}
	if mode == w.old.mode.Perm() && bytes.Equal(w.before, q.Content) {
		return nil
	}
	return w.store(ctx, q.Content, mode)
}

func (w *place) writeResult(q *WriteRequest) WriteResult {
	r := WriteResult{Created: w.old == nil, NewSHA256: sumOf(q.Content), NewSize: int64(len(q.Content))}
	did := "created"
	if w.old != nil {
		did = "overwritten"
		r.OldSHA256, r.OldSize, r.SeveredLinks = sumOf(w.before), int64(len(w.before)), w.severed()
	}
	r.Added, r.Removed = countChanges(w.before, q.Content)
	r.Kind = Text
	var h strings.Builder
	fmt.Fprintf(&h, "%s %s size=%d sha256=%s", q.Path, did, r.NewSize, r.NewSHA256)
	if w.old != nil {
		fmt.Fprintf(&h, " old_size=%d old_sha256=%s", r.OldSize, r.OldSHA256)
	}
	if r.Added >= 0 {
		fmt.Fprintf(&h, " lines=+%d/-%d", r.Added, r.Removed)
	}
	severedField(&h, r.SeveredLinks)
	r.Header = h.String()
	return r
}

func severedField(h *strings.Builder, n int) {
	if n > 0 {
		fmt.Fprintf(h, " severed_links=%d (other names keep the old bytes)", n)
	}
}

func sumOf(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// openPlace checks and pins the directory of a path that may be written, with
// the object that has the name now, if any. mkdirs makes missing directories.
func (t *Tree) openPlace(p workspace.Path, mkdirs bool) (*place, error) {
	parentRel, name, _ := cutLast(p.Rel())
	parent, refusal := workspace.ParsePath(virtual(&root{name: p.Root()}, parentRel))
	if refusal != nil {
		return nil, refusal
	}
	dir, err := t.resolveDir(parent)
	if mkdirs && isNotFound(err) {
		dir, err = t.makeDirs(parent)
	}
	if isNotFound(err) {
		return nil, workspace.Fail("not_found", "no such directory: %s; mkdirs=true makes it", parent)
	}
	if err != nil {
		return nil, err
	}
	w := &place{t: t, path: p, dir: dir, name: name, unlock: lockPlace(dir.id, name)}
	if err := w.look(); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func isNotFound(err error) bool {
	var f *workspace.Failure
	return errors.As(err, &f) && f.Reason == "not_found"
}

// makeDirs makes a directory and those above it. The whole path passed
// CheckWrite, so none of them has a denied name.
func (t *Tree) makeDirs(p workspace.Path) (*object, error) {
	parentRel, name, _ := cutLast(p.Rel())
	parent, refusal := workspace.ParsePath(virtual(&root{name: p.Root()}, parentRel))
	if refusal != nil {
		return nil, refusal
	}
	dir, err := t.resolveDir(parent)
	if isNotFound(err) && parentRel != "" {
		dir, err = t.makeDirs(parent)
	}
	if err != nil {
		return nil, err
	}
	defer dir.close()
	if err := dir.mkdir(name); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, explain(err, p.String())
	}
	return t.resolveDir(p)
}
