package strict

import (
	stdjson "encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// doc has each kind of member that our documents have.
type doc struct {
	Text string            `json:"text"`
	N    int64             `json:"n"`
	U    uint64            `json:"u"`
	F    float64           `json:"f"`
	B    bool              `json:"b"`
	Raw  []byte            `json:"raw"`
	List []string          `json:"list"`
	Map  map[string]uint64 `json:"map"`
	Sub  *doc              `json:"sub"`
	Any  any               `json:"any"`
}

const limit = 1 << 10

// vector is one line of testdata/vectors.json.
type vector struct {
	Why string
	In  string
	// Std says what encoding/json makes of it, with DisallowUnknownFields.
	Std string
}

func vectors(t testing.TB) (good, bad []vector) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Good, Bad []vector }
	if err := stdjson.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	return file.Good, file.Bad
}

func TestVectors(t *testing.T) {
	t.Parallel()
	good, bad := vectors(t)
	for _, v := range good {
		t.Run("good "+v.Why, func(t *testing.T) {
			t.Parallel()
			var d doc
			if err := Unmarshal([]byte(v.In), limit, &d); err != nil {
				t.Error(err)
			}
		})
	}
	for _, v := range bad {
		t.Run(v.Why, func(t *testing.T) {
			t.Parallel()
			var d doc
			if err := Unmarshal([]byte(v.In), limit, &d); !errors.Is(err, ErrInput) {
				t.Errorf("%v: %+v", err, d)
			}
			// Why this package exists: much of the list passes the standard
			// library, and not as one would think.
			var lax doc
			dec := stdjson.NewDecoder(strings.NewReader(v.In))
			dec.DisallowUnknownFields()
			got := "refused"
			if err := dec.Decode(&lax); err == nil {
				got = "accepted"
			}
			if v.Std != "" && got != v.Std {
				t.Logf("encoding/json now says %s", got)
			}
		})
	}
}

// TestBytes are the inputs that a JSON file can't hold.
func TestBytes(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"invalid UTF-8 in a string":    "{\"text\":\"a\xffb\"}",
		"invalid UTF-8 in a name":      "{\"te\xffxt\":\"a\"}",
		"surrogate in UTF-8 (CESU-8)":  "{\"text\":\"\xed\xa0\x80\"}",
		"overlong slash":               "{\"text\":\"\xc0\xaf\"}",
		"cut code point":               "{\"text\":\"\xe2\x82\"}",
		"byte order mark":              "\xef\xbb\xbf{}",
		"raw NUL":                      "{\"text\":\"a\x00b\"}",
		"raw newline in a string":      "{\"text\":\"a\nb\"}",
		"raw escape character":         "{\"text\":\"a\x1bb\"}",
		"no-break space between":       "{\u00a0}",
		"form feed between":            "{\f}",
		"UTF-16":                       "{\x00}\x00",
		"40 deep arrays":               `{"any":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + "}",
		"40 deep objects":              strings.Repeat(`{"sub":`, 40) + "{}" + strings.Repeat("}", 40),
		"deep and cut off":             strings.Repeat("[", 1000),
		"over the limit":               `{"text":"` + strings.Repeat("a", limit) + `"}`,
		"over the limit by whitespace": "{}" + strings.Repeat(" ", limit),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var d doc
			if err := Unmarshal([]byte(in), limit, &d); !errors.Is(err, ErrInput) {
				t.Errorf("%v: %+v", err, d)
			}
		})
	}
}

// TestLimitFirst: the size is checked before anything is read.
func TestLimitFirst(t *testing.T) { // not parallel: AllocsPerRun forbids it
	huge := make([]byte, 64<<20)
	allocs := testing.AllocsPerRun(3, func() {
		var d doc
		if err := Unmarshal(huge, limit, &d); !errors.Is(err, ErrInput) {
			t.Error(err)
		}
	})
	if allocs > 20 {
		t.Errorf("%v allocations for an input over the limit", allocs)
	}
}

func TestMarshal(t *testing.T) {
	t.Parallel()
	in := doc{Text: "caf\u00e9 <&> \u2028", N: -1, U: 1<<53 - 1, Raw: []byte{0xff}, List: []string{}, Map: map[string]uint64{"b": 2, "a": 1, "c": 3}}
	const want = `{"text":"` + "caf\u00e9 <&> \u2028" + `","n":-1,"u":9007199254740991,"f":0,"b":false,"raw":"/w==","list":[],"map":{"a":1,"b":2,"c":3},"sub":null,"any":null}`
	for range 20 { // a map is walked in another order each time
		raw, err := Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(raw)); diff != "" {
			t.Fatal(diff)
		}
		var out doc
		if err := Unmarshal(raw, limit, &out); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(in, out); diff != "" {
			t.Fatal(diff)
		}
	}
	for name, v := range map[string]any{"bad UTF-8": doc{Text: "\xff"}, "a channel": make(chan int)} {
		if raw, err := Marshal(v); err == nil {
			t.Errorf("%s: %s", name, raw)
		}
	}
}

// TestErrorsAreShort: an error quotes no more than a little of the input and
// can be shown on a terminal.
func TestErrorsAreShort(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		`{"` + strings.Repeat("x", 900) + `":1}`,
		`{"text":"` + strings.Repeat("y", 900),
		"{\"\x1b[2J\":1}", `{"\u001b[2J":1}`, `{"text":1}`, `{"n":"\u001b[2J"}`,
	} {
		var d doc
		err := Unmarshal([]byte(in), limit, &d)
		if err == nil || strings.ContainsAny(err.Error(), "\x1b\n\x00") {
			t.Errorf("%q", err)
		}
		if err != nil && (strings.Contains(err.Error(), "jsontext: ") || strings.HasPrefix(err.Error(), "json: ")) {
			t.Errorf("the library's name is in %q", err)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	}
}

// FuzzUnmarshal: what is accepted reads the same in encoding/json, and comes
// back the same from Marshal.
func FuzzUnmarshal(f *testing.F) {
	good, bad := vectors(f)
	for _, v := range append(good, bad...) {
		f.Add([]byte(v.In))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var d doc
		if err := Unmarshal(in, limit, &d); err != nil {
			if !errors.Is(err, ErrInput) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		var lax doc
		dec := stdjson.NewDecoder(strings.NewReader(string(in)))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&lax); err != nil {
			t.Fatalf("encoding/json refuses what we accept: %v", err)
		}
		// Compared in JSON, where nil and empty are one, and since cmp.Diff takes
		// for ever on deep values of type any.
		raw, err := Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if theirs, err := Marshal(lax); err != nil || string(theirs) != string(raw) {
			t.Fatalf("another reader sees another document: %s, %v, ours %s", theirs, err, raw)
		}
		var again doc
		if err := Unmarshal(raw, 8*limit, &again); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if twice, err := Marshal(again); err != nil || string(twice) != string(raw) {
			t.Fatalf("%s became %s, %v", raw, twice, err)
		}
	})
}
