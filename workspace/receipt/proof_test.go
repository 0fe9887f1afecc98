package receipt

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftmesh/weft/protocols/strict"
	"github.com/weftmesh/weft/workspace/sessionlog"
)

var disclosed = sessionlog.Values{Path: []byte("app/main.go"), Args: []byte(`{"path":"app/main.go"}`)}

func (w *world) prove(t testing.TB, seq uint64, v sessionlog.Values) []byte {
	t.Helper()
	raw, err := Prove(w.log, w.parties, w.checkpoint, seq, w.key, v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestProof(t *testing.T) {
	t.Parallel()
	w := play(t, testSession, 1, 2, true, nil)
	raw := w.prove(t, 1, disclosed)
	want, err := os.ReadFile(filepath.Join("testdata", "proof.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(raw, want) {
		t.Errorf("the proof format changed:\n%s", raw)
	}
	d, err := Check(raw, w.raw)
	if err != nil {
		t.Fatal(err)
	}
	if !d.Valid || !d.Receipt || !d.Cosigned || d.Seq != 1 || d.Records != 9 || d.Record.Tool != "read_file" || d.Requester != w.requester.Public() {
		t.Errorf("%+v", d)
	}
	if diff := cmp.Diff([]Opened{{Field: "path", Text: "app/main.go"}, {Field: "args", Text: `{"path":"app/main.go"}`}}, d.Opened); diff != "" {
		t.Error(diff)
	}
	if v, ok := d.Value("path"); !ok || string(v) != "app/main.go" {
		t.Errorf("path %q", v)
	}
	if _, ok := d.Value("result"); ok {
		t.Error("a secret value is there")
	}

	// Binary values, empty disclosures, an uncosigned checkpoint.
	d, err = Check(w.prove(t, 2, sessionlog.Values{Result: []byte{0xff, 0, 1}}), nil)
	if v, ok := d.Value("result"); err != nil || d.Receipt || !ok || !bytes.Equal(v, []byte{0xff, 0, 1}) {
		t.Errorf("%+v, %v", d, err)
	}
	if d, err = Check(w.prove(t, 0, sessionlog.Values{}), w.alone); err != nil || len(d.Opened) != 0 || d.Record.Grant != testGrant {
		t.Errorf("%+v, %v", d, err)
	}
	alone := play(t, testSession, 1, 2, false, nil)
	if d, err = Check(alone.prove(t, 1, disclosed), alone.alone); err != nil || d.Cosigned {
		t.Errorf("not cosigned: %+v, %v", d, err)
	}
}

// TestProofEveryBit: no bit of a proof file can change.
func TestProofEveryBit(t *testing.T) {
	t.Parallel()
	w := play(t, testSession, 1, 2, true, nil)
	raw := w.prove(t, 1, disclosed)
	flips(raw, func(i int, changed []byte) {
		if _, err := Check(changed, nil); err == nil {
			t.Errorf("changed %s, still valid", around(raw, i))
		}
	})
	for n := range raw {
		if _, err := Check(raw[:n], nil); err == nil {
			t.Errorf("cut to %d of %d bytes, still valid", n, len(raw))
		}
	}
}

func TestProofRefusesToLie(t *testing.T) {
	t.Parallel()
	w := play(t, testSession, 1, 2, true, nil)
	for name, c := range map[string]struct {
		seq uint64
		v   sessionlog.Values
	}{
		"another path":        {1, sessionlog.Values{Path: []byte("app/other.go")}},
		"a value of none":     {0, sessionlog.Values{Path: []byte("app/main.go")}},
		"of another record":   {2, sessionlog.Values{Path: []byte("app/main.go")}},
		"an empty for a none": {3, sessionlog.Values{Args: []byte{}}},
	} {
		if _, err := Prove(w.log, w.parties, w.checkpoint, c.seq, w.key, c.v); !errors.Is(err, sessionlog.ErrProof) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Prove(w.log, w.parties, w.checkpoint, 1, sessionlog.NewKey(), disclosed); !errors.Is(err, sessionlog.ErrProof) {
		t.Errorf("with another key: %v", err)
	}
	if _, err := Prove(w.log, w.parties, w.checkpoint, 9, w.key, disclosed); !errors.Is(err, sessionlog.ErrProof) {
		t.Errorf("past the end: %v", err)
	}
}

func TestProofAttacks(t *testing.T) {
	t.Parallel()
	w := play(t, testSession, 1, 2, true, nil)
	other := play(t, "othersession", 1, 2, true, nil)
	stranger := play(t, testSession, 3, 4, true, nil)
	resaid := play(t, testSession, 1, 2, true, func(r []sessionlog.Record) { r[2].Bytes = 7 })
	good := w.prove(t, 1, disclosed)
	parse := func(raw []byte) (f proofFile) {
		if err := strict.Unmarshal(raw, MaxProof, &f); err != nil {
			t.Fatal(err)
		}
		return f
	}
	theirs, next := parse(stranger.prove(t, 1, disclosed)), parse(w.prove(t, 2, sessionlog.Values{}))
	foreign := parse(other.prove(t, 1, disclosed))
	for name, change := range map[string]func(*proofFile){
		"format":                   func(f *proofFile) { f.Format = "weft session proof v2" },
		"session":                  func(f *proofFile) { f.Session = "othersession" },
		"requester":                func(f *proofFile) { f.Requester = theirs.Requester },
		"provider":                 func(f *proofFile) { f.Provider = theirs.Provider },
		"parties swapped":          func(f *proofFile) { f.Requester, f.Provider = f.Provider, f.Requester },
		"certs swapped":            func(f *proofFile) { f.Certs[0], f.Certs[1] = f.Certs[1], f.Certs[0] },
		"certs of others":          func(f *proofFile) { f.Certs = theirs.Certs },
		"certs of another session": func(f *proofFile) { f.Certs = foreign.Certs },
		"provider's cert dropped":  func(f *proofFile) { f.Certs = f.Certs[:1] },
		"proof of others":          func(f *proofFile) { f.Proof = theirs.Proof },
		"proof of another session": func(f *proofFile) { f.Proof = foreign.Proof },
		"record of another":        func(f *proofFile) { f.Leaf = next.Leaf },
		"proof of the next record": func(f *proofFile) { f.Proof = next.Proof },
		"record and proof of next": func(f *proofFile) { f.Leaf, f.Proof = next.Leaf, next.Proof },
		"record changed":           func(f *proofFile) { f.Leaf = strings.Replace(f.Leaf, "allowed", "denied", 1) },
		"record empty":             func(f *proofFile) { f.Leaf = "" },
		"opening of another field": func(f *proofFile) { f.Openings[0].Field = "result" },
		"opening of no field":      func(f *proofFile) { f.Openings[0].Field = "note" },
		"openings in other order":  func(f *proofFile) { f.Openings[0], f.Openings[1] = f.Openings[1], f.Openings[0] },
		"opening twice":            func(f *proofFile) { f.Openings[1] = f.Openings[0] },
		"opening's value":          func(f *proofFile) { f.Openings[0].Value = []byte("app/other.go") },
		"opening's salt":           func(f *proofFile) { f.Openings[0].Salt = f.Openings[1].Salt },
		"salt upper case":          func(f *proofFile) { f.Openings[0].Salt = strings.ToUpper(f.Openings[0].Salt) },
		"salt short":               func(f *proofFile) { f.Openings[0].Salt = f.Openings[0].Salt[:62] },
		"openings null":            func(f *proofFile) { f.Openings = append(f.Openings, opening{}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := parse(good)
			change(&f)
			raw, err := strict.Marshal(f)
			if err != nil {
				t.Fatal(err)
			}
			if d, err := Check(raw, nil); err == nil {
				t.Errorf("valid: %+v", d)
			}
		})
	}
	for name, receipt := range map[string][]byte{
		"receipt of another session": other.raw,
		"receipt of others":          stranger.raw,
		"receipt of a rewritten log": resaid.raw,
		"no receipt":                 []byte("{}"),
		"a receipt cut off":          w.raw[:len(w.raw)-1],
		"an empty receipt":           {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if d, err := Check(good, receipt); err == nil {
				t.Errorf("valid: %+v", d)
			}
		})
	}
	t.Run("under an older head", func(t *testing.T) {
		t.Parallel()
		h, err := w.log.HeadAt(5)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := Prove(w.log, w.parties, w.sign(t, h, true), 1, w.key, disclosed)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Check(raw, nil); err != nil {
			t.Errorf("alone: %v", err)
		}
		if _, err := Check(raw, w.raw); !errors.Is(err, ErrMismatch) {
			t.Errorf("against the receipt: %v", err)
		}
	})
	if _, err := Check(make([]byte, MaxProof+1), nil); !errors.Is(err, strict.ErrInput) {
		t.Errorf("a huge file: %v", err)
	}
}

// TestProofHidesTheRest: a proof holds the chosen values and nothing of the
// others.
func TestProofHidesTheRest(t *testing.T) {
	t.Parallel()
	w := play(t, testSession, 1, 2, true, nil)
	raw := string(w.prove(t, 1, sessionlog.Values{Args: disclosed.Args}))
	for name, secret := range map[string]string{
		"the session's key": w.key.Hex(), "the path's salt": w.key.Salt("path", 1).Hex(), "another record": `\"seq\":2`,
	} {
		if strings.Contains(raw, secret) {
			t.Errorf("the proof has %s", name)
		}
	}
}

// FuzzCheck: only the true proof verifies for this session, and nothing
// panics.
func FuzzCheck(f *testing.F) {
	good, err := os.ReadFile(filepath.Join("testdata", "proof.json"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := Check(data, nil)
		if err == nil && d.Session == testSession && d.Cosigned && len(d.Opened) == 2 && !bytes.Equal(data, good) {
			t.Fatalf("a forgery verifies: %q", data)
		}
	})
}
