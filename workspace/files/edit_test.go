package files

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEdit(t *testing.T) {
	for _, tt := range []struct {
		name, before string
		edits        []TextEdit
		after        string // or the verdict
		hint         string
	}{
		{"one", "a b c\n", []TextEdit{{Old: "b", New: "B"}}, "a B c\n", ""},
		{"in order", "a\n", []TextEdit{{Old: "a", New: "b"}, {Old: "b", New: "c"}}, "c\n", ""},
		{"all or none", "a\nb\n", []TextEdit{{Old: "a", New: "x"}, {Old: "zz", New: "y"}}, "no_match", "edit 2"},
		{"twice", "a a\n", []TextEdit{{Old: "a", New: "b"}}, "no_match", "occurs 2 times in app/f (lines 1, 1), not 1"},
		{"count", "a a\n", []TextEdit{{Old: "a", New: "b", Count: 2}}, "b b\n", ""},
		{"count too high", "a a\n", []TextEdit{{Old: "a", New: "b", Count: 3}}, "no_match", "not 3"},
		{"every", "a a a\n", []TextEdit{{Old: "a", New: "b", All: true}}, "b b b\n", ""},
		{"every of none", "x\n", []TextEdit{{Old: "a", New: "b", All: true}}, "no_match", ""},
		{"overlap", "aaa\n", []TextEdit{{Old: "aa", New: "b"}}, "no_match", "occurs 2 times"},
		{"overlap, counted", "aaa\n", []TextEdit{{Old: "aa", New: "b", Count: 2}}, "no_match", "overlap"},
		{"overlap, every", "aaa\n", []TextEdit{{Old: "aa", New: "b", All: true}}, "ba\n", ""},
		{"delete", "a\nb\n", []TextEdit{{Old: "a\n", New: ""}}, "b\n", ""},
		{"no final newline", "a\nb", []TextEdit{{Old: "b", New: "c"}}, "a\nc", ""},
		{"BOM", "\xef\xbb\xbfa\n", []TextEdit{{Old: "a", New: "b"}}, "\xef\xbb\xbfb\n", ""},
		{"CRLF", "a\r\nb\r\nc\r\n", []TextEdit{{Old: "a\nb\n", New: "x\ny\nz\n"}}, "x\r\ny\r\nz\r\nc\r\n", ""},
		{"CRLF in one line", "a b\r\nc\r\n", []TextEdit{{Old: "b", New: "1\n2"}}, "a 1\r\n2\r\nc\r\n", ""},
		{"CRLF at the end", "a\r\nb", []TextEdit{{Old: "b", New: "b\nc\n"}}, "a\r\nb\r\nc\r\n", ""},
		{"CRLF said", "a\r\nb\r\n", []TextEdit{{Old: "a\r\nb", New: "x\r\ny"}}, "x\r\ny\r\n", ""},
		{"CRLF newline only", "a\r\nb\r\n", []TextEdit{{Old: "a\n", New: "a"}}, "ab\r\n", ""},
		{"new with CRLF", "a\r\nb\r\n", []TextEdit{{Old: "a", New: "x\r\ny"}}, "x\r\ny\r\nb\r\n", ""},
		{"mixed keeps each", "a\r\nb\nc\r\n", []TextEdit{{Old: "a\nb\nc", New: "1\n2\n3"}}, "1\r\n2\n3\r\n", ""},
		{"mixed, LF line", "a\r\nb\nc\r\n", []TextEdit{{Old: "b", New: "x\ny"}}, "a\r\nx\ny\nc\r\n", ""},
		{"LF file, CRLF old", "a\nb\n", []TextEdit{{Old: "a\r\nb", New: "x"}}, "no_match", "has LF"},
		{"tab and spaces", "\tif x {\n", []TextEdit{{Old: "    if x {", New: "y"}}, "no_match", `line 1: \tif x {`},
		{"trailing space", "foo  bar \n", []TextEdit{{Old: "foo bar", New: "y"}}, "no_match", "line 1: foo ·bar·"},
		{"latin-1 stays", "caf\xe9 a\n", []TextEdit{{Old: " a", New: " b"}}, "caf\xe9 b\n", ""},
		{"nothing alike", "a\n", []TextEdit{{Old: "completely different", New: "y"}}, "no_match", "no line is like it"},
		{"NUL", "a\x00b", []TextEdit{{Old: "a", New: "b"}}, "binary", ""},
		{"empty old", "a", []TextEdit{{Old: "", New: "b"}}, "bad_arguments", ""},
		{"same", "a", []TextEdit{{Old: "a", New: "a"}}, "bad_arguments", ""},
		{"none", "a", nil, "bad_arguments", ""},
		{"too many", "a", make([]TextEdit, 101), "bad_arguments", ""},
		{"count and all", "a", []TextEdit{{Old: "a", New: "b", Count: 1, All: true}}, "bad_arguments", ""},
		{"U+FFFD", "caf\xe9", []TextEdit{{Old: "caf", New: "caf\ufffd"}}, "bad_arguments", ""}, // 83
		{"bad UTF-8", "a", []TextEdit{{Old: "a", New: "\xff"}}, "bad_arguments", ""},
		{"grows too big", strings.Repeat("a", 1<<20), []TextEdit{{Old: "a", New: "0123456789", All: true}}, "too_large", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree, dir := granted(t, map[string]string{"f": tt.before})
			name := filepath.Join(dir, "f")
			must(t, os.Chmod(name, 0o755))
			q := EditRequest{Path: pathOf(t, "app/f"), Edits: tt.edits, DryRun: true}
			dry, dryErr := tree.Edit(context.Background(), q)
			if b, _ := os.ReadFile(name); string(b) != tt.before {
				t.Errorf("dry run wrote %q", b)
			}
			q.DryRun = false
			r, err := tree.Edit(context.Background(), q)
			if verdict(err) != verdict(dryErr) || string(r.Body) != string(dry.Body) || r.NewSHA256 != dry.NewSHA256 {
				t.Errorf("dry run differs: %v, %v", dryErr, err)
			}
			b, _ := os.ReadFile(name)
			if err != nil {
				if verdict(err) != tt.after || !strings.Contains(err.Error(), tt.hint) || string(b) != tt.before {
					t.Errorf("%v; the file has %.50q", err, b)
				}
				return
			}
			st, err := os.Stat(name)
			must(t, err)
			if string(b) != tt.after || st.Mode().Perm() != 0o755 || r.NewSHA256 != sumOf(b) || r.OldSHA256 != sumOf([]byte(tt.before)) {
				t.Errorf("got %q mode %v, want %q", b, st.Mode(), tt.after)
			}
			leftovers(t, dir)
		})
	}
}

func TestEditGuardAndDiff(t *testing.T) {
	tree, _ := granted(t, map[string]string{"f": numbered(1, 200), "big": strings.Repeat("x\n", maxEdit)})
	q := EditRequest{Path: pathOf(t, "app/f"), IfSHA256: sumOf([]byte("other")), Edits: []TextEdit{{Old: "line 150\n", New: "LINE\nmore\n"}}}
	if _, err := tree.Edit(context.Background(), q); verdict(err) != "changed" {
		t.Errorf("wrong hash: %v", err)
	}
	q.IfSHA256 = sumOf([]byte(numbered(1, 200)))
	r, err := tree.Edit(context.Background(), q)
	want := "--- a/app/f\n+++ b/app/f\n@@ -147,7 +147,8 @@\n line 147\n line 148\n line 149\n-line 150\n+LINE\n+more\n line 151\n line 152\n line 153\n"
	if err != nil || string(r.Body) != want || r.Added != 2 || r.Removed != 1 {
		t.Errorf("diff %s +%d -%d %v", r.Body, r.Added, r.Removed, err)
	}
	q = EditRequest{Path: pathOf(t, "app/big"), Edits: []TextEdit{{Old: "x", New: "y", All: true}}}
	if _, err := tree.Edit(context.Background(), q); verdict(err) != "too_large" {
		t.Errorf("big file: %v", err)
	}
	q = EditRequest{Path: pathOf(t, "app/f"), Edits: []TextEdit{{Old: "line", New: "row", All: true}}}
	r, err = tree.Edit(context.Background(), q)
	if err != nil || r.Replaced != 199 || r.Added < 199 || r.Added-r.Removed != 0 {
		t.Errorf("all: %d +%d %v", r.Replaced, r.Added, err)
	}
}

// patched applies a unified diff.
func patched(text, diff string) string {
	var out []string
	old, pos := strings.SplitAfter(text, "\n"), 0
	for _, l := range strings.SplitAfter(diff, "\n") {
		var from int
		switch {
		case l == "" || strings.HasPrefix(l, "--- ") || strings.HasPrefix(l, "+++ "):
		case strings.HasPrefix(l, "\\"): // no newline at the end of the line before
			if last := &out[len(out)-1]; pos < len(old) || strings.HasSuffix(*last, "\n") {
				*last = strings.TrimSuffix(*last, "\n")
			}
		case strings.HasPrefix(l, "@@"):
			if _, err := fmt.Sscanf(l, "@@ -%d", &from); err != nil {
				return err.Error()
			}
			out = append(out, old[pos:max(from-1, 0)]...)
			pos = max(from-1, 0)
		case l[0] == '+':
			out = append(out, l[1:])
		case l[0] == '-':
			pos++
		default:
			out = append(out, l[1:])
			pos++
		}
	}
	return strings.Join(append(out, old[min(pos, len(old)):]...), "")
}

func TestDiffAgainstWholeFile(t *testing.T) {
	a := numbered(1, 100)
	for _, b := range []string{"", a, strings.Replace(a, "line 1\n", "", 1), strings.Replace(a, "line 100\n", "line 100", 1), "x\n" + a, a + "x\n", a + "x", strings.Replace(a, "line 50\n", "line 50\nline 50\n", 1)} {
		got := string(unified("f", []byte(a), []byte(b)))
		add, del := diffStat([]byte(got))
		if strings.Count(b, "\n")-strings.Count(a, "\n") != add-del && strings.HasSuffix(b, "\n") {
			t.Errorf("+%d -%d:\n%s", add, del, got)
		}
		if back := patched(a, got); back != b {
			t.Errorf("the diff leads to %q:\n%s", back, got)
		}
		if (a == b) != (got == "") {
			t.Errorf("%q", got)
		}
	}
}
