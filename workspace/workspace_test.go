package workspace

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestPathGood: names as real projects have them.
func TestPathGood(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ root, rel, base string }{
		"app":                        {"app", "", "app"},
		"app/main.go":                {"app", "main.go", "main.go"},
		"app/src/a b/c-d_e.f":        {"app", "src/a b/c-d_e.f", "c-d_e.f"},
		"app/...":                    {},
		"app/.github/workflows":      {"app", ".github/workflows", "workflows"},
		"app/..data":                 {"app", "..data", "..data"},
		"app/...x":                   {"app", "...x", "...x"},
		"app/~user":                  {"app", "~user", "~user"},
		"app/file~":                  {"app", "file~", "file~"},
		"app/a~b.go":                 {"app", "a~b.go", "a~b.go"},
		"app/console.go":             {"app", "console.go", "console.go"},
		"app/com.go":                 {"app", "com.go", "com.go"},
		"app/com10":                  {"app", "com10", "com10"},
		"app/auxiliary.c":            {"app", "auxiliary.c", "auxiliary.c"},
		"app/null":                   {"app", "null", "null"},
		"app/\u65e5\u672c\u8a9e.txt": {"app", "\u65e5\u672c\u8a9e.txt", "\u65e5\u672c\u8a9e.txt"},
		"app/caf\u00e9":              {"app", "caf\u00e9", "caf\u00e9"},
		"app/cafe\u0301":             {"app", "cafe\u0301", "cafe\u0301"},
		"app/$HOME":                  {"app", "$HOME", "$HOME"},
		"app/a;b|c&d*?":              {"app", "a;b|c&d*?", "a;b|c&d*?"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, r := ParsePath(name)
			if c.root == "" { // ends in a dot
				if r == nil {
					t.Errorf("accepted: %+v", p)
				}
				return
			}
			if r != nil {
				t.Fatal(r)
			}
			if p.Root() != c.root || p.Rel() != c.rel || p.Base() != c.base || p.String() != name || p.IsRoot() != (c.rel == "") {
				t.Errorf("root %q rel %q base %q text %q", p.Root(), p.Rel(), p.Base(), p)
			}
		})
	}
}

// TestPathAttacks are cases 1, 2, 16, 17 and 21 of the adversarial catalogue
// (reference/workspace.md section 3): what a path's text alone must not be.
func TestPathAttacks(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 255)
	for name, in := range map[string]string{
		"1 parent":                     "../outside",
		"1 parent inside":              "a/../../x",
		"1 parent that stays inside":   "app/a/../b",
		"1 bare parent":                "..",
		"1 parent with slash":          "../",
		"1 parent at the end":          "app/..",
		"1 this folder":                "./app",
		"1 this folder inside":         "app/./x",
		"1 bare dot":                   ".",
		"2 absolute":                   "/repo-evil",
		"2 absolute twice":             "//repo",
		"2 absolute path of the root":  "/app/main.go",
		"2 home":                       "~/x",
		"2 bare home":                  "~",
		"2 home of a user":             "~root/x",
		"2 double slash":               "app//x",
		"2 trailing slash":             "app/",
		"2 trailing slash on a file":   "app/main.go/",
		"2 only a slash":               "/",
		"16 NUL":                       "app/a\x00.go",
		"16 NUL hides a suffix":        "app/.env\x00.txt",
		"16 newline":                   "app/a\nb",
		"16 carriage return":           "app/a\rb",
		"16 tab":                       "app/a\tb",
		"16 escape":                    "app/\x1b[2Ja",
		"16 DEL":                       "app/a\x7f",
		"16 C1 control":                "app/a\u0085b",
		"16 CSI":                       "app/\u009b2J",
		"16 right-to-left override":    "app/a\u202egpj.exe",
		"16 isolate":                   "app/a\u2066b",
		"16 zero-width space":          "app/.e\u200bnv",
		"16 zero-width joiner":         "app/.e\u200dnv",
		"16 zero-width non-joiner":     "app/.g\u200cit",
		"16 soft hyphen":               "app/.e\u00adnv",
		"16 byte order mark":           "app/\ufeff.env",
		"16 word joiner":               "app/\u2060.env",
		"16 tag character":             "app/a\U000e0041",
		"16 line separator":            "app/a\u2028b",
		"16 paragraph separator":       "app/a\u2029b",
		"16 invalid UTF-8":             "app/a\xff",
		"16 overlong slash":            "app/a\xc0\xafb",
		"16 overlong dots":             "app/\xc0\xae\xc0\xae/x",
		"16 surrogate":                 "app/a\xed\xa0\x80",
		"17 trailing dot":              "app/.env.",
		"17 trailing space":            "app/.env ",
		"17 trailing dots in a folder": "app/src../x",
		"17 root with a space":         "app /x",
		"17 alternate stream":          "app/.env::$DATA",
		"17 alternate stream short":    "app/x:y",
		"17 drive":                     "C:/x",
		"17 drive without slash":       "C:x",
		"17 device":                    "app/NUL",
		"17 device with extension":     "app/nul.txt",
		"17 device with two":           "app/Aux.tar.gz",
		"17 device with spaces":        "app/con .txt",
		"17 device as a folder":        "app/prn/x",
		"17 console":                   "app/CONIN$",
		"17 serial port":               "app/com1",
		"17 printer port":              "app/LPT9.log",
		"17 superscript port":          "app/COM\u00b9",
		"17 UNC":                       `\\server\share`,
		"17 UNC with slashes":          "//server/share",
		"17 verbatim":                  `\\?\C:\x`,
		"17 backslash":                 `app\x`,
		"17 backslash parent":          `app/..\x`,
		"17 short name":                "app/PROGRA~1",
		"17 short name of .env":        "app/ENV~1",
		"17 short name with extension": "app/ENVLOC~1.LOC",
		"21 empty":                     "",
		"21 4097 bytes":                strings.Repeat("a/", 2048) + "a",
		"21 a megabyte":                strings.Repeat("a/", 1<<19) + "a",
		"21 5000 components":           "a" + strings.Repeat("/a", 5000),
		"21 256-byte component":        "app/" + long + "a",
		"21 256-byte root":             long + "a",
		"21 256 bytes in wide letters": "app/" + strings.Repeat("\u65e5", 86),
		"21 slashes only":              strings.Repeat("/", 4096),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, r := ParsePath(in)
			if r == nil || r.Code != BadPath || r.Hint == "" || p != (Path{}) {
				t.Fatalf("%+v, %v", p, r)
			}
			if len(r.Error()) > 500 || !utf8.ValidString(r.Error()) || strings.ContainsAny(r.Error(), "\x00\n\r\x1b\u202e") {
				t.Errorf("the hint is not fit to be shown: %q", r.Error())
			}
		})
	}
	for name, in := range map[string]string{
		"21 255-byte component": "app/" + long,
		"21 4096 bytes":         strings.Repeat("a/", 2047) + "aa",
	} {
		if _, r := ParsePath(in); r != nil {
			t.Errorf("%s: %v", name, r)
		}
	}
}

func TestPathJoin(t *testing.T) {
	t.Parallel()
	p, r := ParsePath("app/src")
	if r != nil {
		t.Fatal(r)
	}
	if q, r := p.Join("a/b.go"); r != nil || q.String() != "app/src/a/b.go" || q.Root() != "app" {
		t.Errorf("%v, %v", q, r)
	}
	for _, rel := range []string{"", "..", "../x", "/x", "a/../../../x", "a//b", "a/", "x\x00", strings.Repeat("a/", 3000)} {
		if q, r := p.Join(rel); r == nil {
			t.Errorf("Join(%.20q) = %v", rel, q)
		}
	}
}

// FuzzParsePath: a path that parses stays below its root however it is
// cleaned, reads back the same, and is fit to be shown.
func FuzzParsePath(f *testing.F) {
	for _, s := range []string{"app", "app/src/main.go", "../x", "app/\x00", "C:/x", "app/nul.txt", "app/a\u202eb", "app/ENV~1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, r := ParsePath(s)
		if r != nil {
			if r.Code != BadPath || p != (Path{}) {
				t.Fatalf("%+v, %v", p, r)
			}
			return
		}
		if p.String() != s || !utf8.ValidString(s) || len(s) > maxPath {
			t.Fatalf("%q became %q", s, p)
		}
		parts := strings.Split(s, "/")
		if parts[0] != p.Root() || strings.Join(parts[1:], "/") != p.Rel() || parts[len(parts)-1] != p.Base() {
			t.Fatalf("%q split as %q and %q", s, p.Root(), p.Rel())
		}
		for _, c := range parts {
			if c == "" || c == "." || c == ".." || len(c) > maxComponent || strings.ContainsAny(c, "\x00\\:\n") {
				t.Fatalf("component %q of %q", c, s)
			}
		}
		if again, r := ParsePath(p.String()); r != nil || again != p {
			t.Fatalf("again: %v, %v", again, r)
		}
	})
}

func TestRight(t *testing.T) {
	t.Parallel()
	names := map[Right]string{
		0: "", Read: "read", Read | Write: "read,write", Read | Exec: "read,exec", Write: "write",
		Read | Write | Delete | Exec: "read,write,delete,exec",
	}
	for r, want := range names {
		text, err := r.MarshalText()
		if err != nil || string(text) != want || r.String() != want {
			t.Errorf("%d is %q, want %q (%v)", r, text, want, err)
		}
		var back Right
		if err := back.UnmarshalText(text); err != nil || back != r {
			t.Errorf("%q reads as %d, %v", text, back, err)
		}
	}
	for _, text := range []string{"write,read", "read,read", "READ", "read, write", "read,", ",read", ",", "admin", "read,admin", "read\n", " read", "r", "0", strings.Repeat("read,", 1000)} {
		r := Exec
		if err := r.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q reads as %v", text, r)
		} else if r != 0 {
			t.Errorf("%q is refused and leaves %v", text, r)
		}
	}
}

func TestRightHas(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		have, want Right
		ok         bool
	}{
		"same":           {Read, Read, true},
		"more":           {Read | Write, Read, true},
		"less":           {Read, Read | Write, false},
		"another":        {Read, Write, false},
		"nothing needed": {0, 0, true},
		"nothing held":   {0, Read, false},
		"one of two":     {Read | Exec, Read | Delete, false},
	} {
		if c.have.Has(c.want) != c.ok {
			t.Errorf("%s: %v", name, !c.ok)
		}
	}
}

// FuzzRight: a list that reads has one spelling.
func FuzzRight(f *testing.F) {
	f.Add("read,write")
	f.Add("write,read")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		var r Right
		if err := r.UnmarshalText([]byte(s)); err == nil && (r.String() != s || r > Read|Write|Delete|Exec) {
			t.Fatalf("%q reads as %v", s, r)
		} else if err != nil && r != 0 {
			t.Fatalf("%q is refused and leaves %v", s, r)
		}
	})
}

// TestCallDigest: no byte can move from one part of a call to the next.
func TestCallDigest(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range [][3]string{{"ab", "c", ""}, {"a", "bc", ""}, {"a", "b", "c"}, {"", "abc", ""}, {"abc", "", ""}, {"", "", "abc"}} {
		d := CallDigest([]byte(c[0]), []byte(c[1]), []byte(c[2]))
		if len(d) != 64 || seen[d] {
			t.Errorf("%q has digest %s", c, d)
		}
		seen[d] = true
	}
}

// TestCodes: the order is the gate's, and each code is said once. It is
// written out here since results, logs and receipts of old sessions have it.
func TestCodes(t *testing.T) {
	t.Parallel()
	want := strings.Fields("killed expired unknown_tool rate_limited bad_arguments no_right bad_path outside_grant secret_path special_file command_not_granted too_large log_unavailable")
	var got []string
	for _, c := range Codes() {
		got = append(got, string(c))
	}
	if !slices.Equal(got, want) {
		t.Errorf("codes %v, want %v", got, want)
	}
	Codes()[0] = "changed"
	if Codes()[0] != Killed {
		t.Error("a caller can change the list")
	}
}

func TestRefusalText(t *testing.T) {
	t.Parallel()
	limited := Refuse(RateLimited, "more than %d a minute", 60)
	limited.RetryAfter = 1500 * time.Millisecond
	for want, err := range map[string]error{
		"DENIED killed":               &Refusal{Code: Killed},
		"DENIED bad_path: no %s here": Refuse(BadPath, "no %%s here"),
		"DENIED rate_limited retry_after_ms=1500: more than 60 a minute": limited,
		"FAILED changed: the file was changed meanwhile":                 Fail("changed", "the file was changed %s", "meanwhile"),
	} {
		if err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
	var r *Refusal
	if err := error(limited); !errors.As(err, &r) || r.Code != RateLimited {
		t.Error("a refusal is not found in an error")
	}
}
