package receipt

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/weftmesh/weft/workspace/sessionlog"
)

func TestExport(t *testing.T) {
	t.Parallel()
	w := play(t, testSession, 1, 2, true, nil)
	export := w.export(t)
	want, err := os.ReadFile(filepath.Join("testdata", "export.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(export, want) {
		t.Errorf("the export format changed:\n%s", export)
	}
	v, err := VerifyExport(bytes.NewReader(export), w.raw)
	if err != nil || !v.LogVerified || !v.Cosigned {
		t.Errorf("%+v, %v", v, err)
	}
	// However the reader cuts it.
	if _, err := VerifyExport(iotest.OneByteReader(bytes.NewReader(export)), w.raw); err != nil {
		t.Errorf("byte by byte: %v", err)
	}
	if u, err := VerifyLog(w.leaves(t), w.raw); err != nil || !cmp.Equal(u, v) {
		t.Errorf("as leaves: %+v, %v", u, err)
	}
	broken := errors.New("the disk broke")
	if _, err := VerifyExport(iotest.ErrReader(broken), w.raw); !errors.Is(err, broken) {
		t.Errorf("a failing reader: %v", err)
	}
	if err := Export(failingWriter{}, w.log); !errors.Is(err, errWriter) {
		t.Errorf("a failing writer: %v", err)
	}
}

var errWriter = errors.New("no space")

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errWriter }

// TestExportEveryBit: no bit of an exported log can change. (The receipt
// itself is TestReceiptEveryBit's.)
func TestExportEveryBit(t *testing.T) {
	t.Parallel()
	w := play(t, testSession, 1, 2, true, nil)
	export := w.export(t)
	if err := w.receipt.matchesExport(bytes.NewReader(export)); err != nil {
		t.Fatal(err)
	}
	flips(export, func(i int, changed []byte) {
		if err := w.receipt.matchesExport(bytes.NewReader(changed)); err == nil {
			t.Errorf("changed %s, still valid", around(export, i))
		}
	})
	for n := range export {
		if err := w.receipt.matchesExport(bytes.NewReader(export[:n])); err == nil {
			t.Errorf("cut to %d of %d bytes, still valid", n, len(export))
		}
	}
}

func TestExportAttacks(t *testing.T) {
	t.Parallel()
	w := play(t, testSession, 1, 2, true, nil)
	lines := strings.SplitAfter(string(w.export(t)), "\n")
	lines = lines[:len(lines)-1]
	cut := func(drop ...int) string {
		var b strings.Builder
		for i, l := range lines {
			if !slices.Contains(drop, i) {
				b.WriteString(l)
			}
		}
		return b.String()
	}
	swap := slices.Clone(lines)
	swap[6], swap[7] = swap[7], swap[6]
	all := strings.Join(lines, "")
	less := strings.Replace(all, `"records":9`, `"records":8`, 1)

	other := play(t, "othersession", 1, 2, true, nil)
	// A history that the requester made anew with the same counts: only the
	// order of two calls differs, or a time, or a commitment.
	reordered := play(t, testSession, 1, 2, true, func(r []sessionlog.Record) { r[5], r[6] = r[6], r[5] })
	retimed := play(t, testSession, 1, 2, true, func(r []sessionlog.Record) { r[2].Time++ })
	resaid := play(t, testSession, 1, 2, true, func(r []sessionlog.Record) {
		r[1].Fill = sessionlog.NewKey().Fill(sessionlog.Values{Path: []byte("app/other.go")})
	})

	for name, c := range map[string]struct {
		export  string
		receipt []byte
	}{
		"empty":                      {"", w.raw},
		"only the header":            {lines[0], w.raw},
		"no header":                  {cut(0), w.raw},
		"tail cut":                   {cut(9), w.raw},
		"tail cut, header too":       {strings.Replace(cut(9), `"records":9`, `"records":8`, 1), w.raw},
		"header says less":           {less, w.raw},
		"middle left out":            {cut(4), w.raw},
		"a pair left out":            {cut(6, 8), w.raw},
		"two swapped":                {strings.Join(swap, ""), w.raw},
		"one twice":                  {strings.Join(slices.Insert(slices.Clone(lines), 4, lines[4]), ""), w.raw},
		"a record behind":            {all + lines[9], w.raw},
		"an empty line behind":       {all + "\n", w.raw},
		"an empty line between":      {strings.Join(lines[:4], "") + "\n" + strings.Join(lines[4:], ""), w.raw},
		"CRLF":                       {strings.ReplaceAll(all, "\n", "\r\n"), w.raw},
		"no last newline":            {strings.TrimSuffix(all, "\n"), w.raw},
		"spaced JSON":                {strings.Replace(all, `,"seq"`, `, "seq"`, 1), w.raw},
		"a huge line":                {lines[0] + strings.Repeat("x", 1<<20), w.raw},
		"an endless header":          {strings.Repeat("{", 1<<20), w.raw},
		"of another session":         {string(other.export(t)), w.raw},
		"for another receipt":        {all, other.raw},
		"re-chained, reordered":      {string(reordered.export(t)), w.raw},
		"re-chained, another time":   {string(retimed.export(t)), w.raw},
		"re-chained, another path":   {string(resaid.export(t)), w.raw},
		"true log, rewritten sealed": {all, resaid.raw},
		"not a receipt":              {all, []byte("{}")},
		"a receipt cut off":          {all, w.raw[:len(w.raw)-1]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if v, err := VerifyExport(strings.NewReader(c.export), c.receipt); err == nil {
				t.Errorf("valid: %+v", v)
			}
		})
	}
}

// TestRecount: whatever the requester claims in the receipt about a true log
// is counted again, also in a receipt that only it signed.
func TestRecount(t *testing.T) {
	t.Parallel()
	w := play(t, testSession, 1, 2, false, nil)
	export, leaves := w.export(t), w.leaves(t)
	if _, err := VerifyExport(bytes.NewReader(export), w.alone); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Receipt){
		"bytes read":      func(r *Receipt) { r.BytesRead = 0 },
		"bytes written":   func(r *Receipt) { r.BytesWritten = 0 },
		"redacted":        func(r *Receipt) { r.Redacted = 0 },
		"a denial hidden": func(r *Receipt) { r.Counts["read_file"] = map[sessionlog.Verdict]uint64{sessionlog.OK: 1}; r.Calls-- },
		"a denial as ok":  func(r *Receipt) { r.Counts["read_file"] = map[sessionlog.Verdict]uint64{sessionlog.OK: 2} },
		"an unknown as failed": func(r *Receipt) {
			r.Counts["run_command"] = map[sessionlog.Verdict]uint64{sessionlog.Failed: 1}
			r.Unknown = 0
		},
		"a call of another":     func(r *Receipt) { r.Counts["glob"] = r.Counts["run_command"]; delete(r.Counts, "run_command") },
		"a call that never was": func(r *Receipt) { r.Counts["glob"] = map[sessionlog.Verdict]uint64{sessionlog.OK: 1}; r.Calls++ },
		"killed as closed":      func(r *Receipt) { r.State = sessionlog.Aborted },
		"grant":                 func(r *Receipt) { r.Grant = strings.Repeat("00", 32) },
		"sandbox":               func(r *Receipt) { r.Sandbox = "none" },
		"opened":                func(r *Receipt) { r.OpenedAt-- },
		"closed":                func(r *Receipt) { r.ClosedAt-- },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := decoded(t, w.alone)
			change(&r)
			doc, err := r.Sign(w.requester)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Verify(doc.Raw()); err != nil {
				t.Fatalf("the lie is not even consistent: %v", err)
			}
			if _, err := VerifyExport(bytes.NewReader(export), doc.Raw()); !errors.Is(err, ErrMismatch) {
				t.Errorf("export: %v", err)
			}
			if _, err := VerifyLog(leaves, doc.Raw()); !errors.Is(err, ErrMismatch) {
				t.Errorf("leaves: %v", err)
			}
		})
	}
	if _, err := VerifyLog(leaves[:8], w.alone); !errors.Is(err, ErrMismatch) {
		t.Errorf("fewer leaves: %v", err)
	}
	if _, err := VerifyLog(append(slices.Clone(leaves[:8]), leaves[0]), w.alone); !errors.Is(err, sessionlog.ErrRecord) {
		t.Errorf("a leaf out of place: %v", err)
	}
	if _, err := VerifyLog(leaves, []byte("x")); err == nil {
		t.Error("no receipt")
	}
}

// TestExportLong: an export of several reads.
func TestExportLong(t *testing.T) {
	t.Parallel()
	l := openLog(t, testSession)
	recs := []sessionlog.Record{{Type: sessionlog.Opened, Grant: testGrant, Time: 1}}
	for range 3 * exportBatch {
		if _, err := l.Append(t.Context(), recs, nil); err != nil {
			t.Fatal(err)
		}
		recs = []sessionlog.Record{{Type: sessionlog.Call, Call: "c", Tool: "glob", Verdict: sessionlog.Denied, Code: "bad_path", Time: 1}}
	}
	var b bytes.Buffer
	if err := Export(&b, l); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(b.Bytes(), []byte("\n")); n != 3*exportBatch+1 {
		t.Errorf("%d lines", n)
	}
}

// FuzzVerifyExport: only the true export matches, and nothing panics.
func FuzzVerifyExport(f *testing.F) {
	raw, err := os.ReadFile(filepath.Join("testdata", "receipt.json"))
	if err != nil {
		f.Fatal(err)
	}
	r, _, err := Open(raw)
	if err != nil {
		f.Fatal(err)
	}
	export, err := os.ReadFile(filepath.Join("testdata", "export.jsonl"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(export)
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := r.matchesExport(bytes.NewReader(data)); err == nil && !bytes.Equal(data, export) {
			t.Fatalf("a forgery matches: %q", data)
		}
	})
}
