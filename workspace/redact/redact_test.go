package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	token    = "sk-9fQ2/xV7+Lm3\"pA&Zr"
	password = "correct-horse-battery-staple"
)

var pem = "-----BEGIN PRIVATE KEY-----\n" +
	"MC4CAQAwBQYDK2VwBCIEIJ3fT9mQe0vWcK1p7hYxq8sLr2ZbNd5Ua6Gt4Xo0BvEi\n" +
	"Qm7tYw2Ls9Kd4Fh8Jp1Zx5Cv3Bn6Ga0Re\n-----END PRIVATE KEY-----\n"

func knownSet(t testing.TB) *Set {
	t.Helper()
	s := New([]Secret{{Value: []byte(token)}, {Value: []byte(password)}, {Value: []byte(pem)}})
	if s.Ignored() != 0 {
		t.Fatalf("ignored %d values", s.Ignored())
	}
	return s
}

// wireForms are written here by other means than in forms.go wherever the
// standard library offers one.
func wireForms(v string) map[string]string {
	quoted, _ := json.Marshal(v)
	reversed := []byte(v)
	slices.Reverse(reversed)
	out := map[string]string{
		"raw": v, "hex": hex.EncodeToString([]byte(v)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(v))),
		"query": url.QueryEscape(v), "path": url.PathEscape(v), "json": string(quoted), "reversed": string(reversed),
		"ansi":   strings.Join(strings.Split(v, ""), "\x1b[0;31m"),
		"lines":  strings.Join(strings.Split(v, ""), "\n"),
		"nul":    strings.Join(strings.Split(v, ""), "\x00"),
		"redraw": strings.Join(strings.Split(v, ""), "\r"),
		"osc":    "\x1b]0;" + v + "\x07",
	}
	for lead := range 3 {
		in := strings.Repeat("x", lead) + v + "yy"
		out["base64+"+string(rune('0'+lead))] = base64.StdEncoding.EncodeToString([]byte(in))
		out["base64url+"+string(rune('0'+lead))] = base64.URLEncoding.EncodeToString([]byte(in))
	}
	return out
}

func TestCase38WireForms(t *testing.T) {
	s := knownSet(t)
	for _, v := range []string{token, password} {
		for name, form := range wireForms(v) {
			in := "before " + form + " after"
			out, n := s.Redact([]byte(in))
			if n == 0 || !IsPlaceholder(out) {
				t.Errorf("%s of %q not redacted: %q", name, v, out)
				continue
			}
			if leak := longestShared(string(out), form); leak > 6 {
				t.Errorf("%s of %q: %d characters in a row left in %q", name, v, leak, out)
			}
			if !strings.HasPrefix(string(out), "before ") || !strings.HasSuffix(string(out), " after") {
				t.Errorf("%s: text around it changed: %q", name, out)
			}
		}
	}
}

// longestShared is the length of the longest part of form, blanks and escapes
// apart, that out contains.
func longestShared(out, form string) int {
	clean := func(s string) string {
		s = strings.ReplaceAll(s, "\x1b[0;31m", "")
		s = strings.ReplaceAll(s, "\x1b]0;", "")
		return string(strip([]byte(strings.ReplaceAll(s, Placeholder, "\xff"))))
	}
	out, form = clean(out), clean(form)
	best := 0
	for i := range form {
		for n := best + 1; i+n <= len(form) && strings.Contains(out, form[i:i+n]); n++ {
			best = n
		}
	}
	return best
}

func TestCase37MultiLine(t *testing.T) {
	s := knownSet(t)
	lines := strings.Split(strings.TrimSpace(pem), "\n")
	body := lines[1]
	for name, in := range map[string]string{
		"whole":     pem,
		"one line":  strings.Join(lines, " "),
		"joined":    strings.Join(lines, ""),
		"one of it": "key: " + body,
		"part":      body[5:60],
		"base64":    base64.StdEncoding.EncodeToString([]byte(pem)),
		"json":      wireForms(pem)["json"],
		"crlf":      strings.ReplaceAll(pem, "\n", "\r\n"),
	} {
		out, n := s.Redact([]byte(in))
		if n == 0 {
			t.Errorf("%s: nothing redacted", name)
		}
		if leak := longestShared(string(out), in); leak >= 2*piece-1 {
			t.Errorf("%s: %d characters left in %q", name, leak, out)
		}
		if name != "part" && strings.Contains(string(out), body[len(body)-24:]) {
			t.Errorf("%s: end of the key left in %q", name, out)
		}
	}
}

func TestCase35SplitAnywhere(t *testing.T) {
	s := knownSet(t)
	in := "a " + token + " b\n" + pem + "c " + wireForms(password)["ansi"] + " d " + wireForms(token)["base64+1"] + "\nend " + token[:9]
	want, wantN := s.Redact([]byte(in))
	for cut := range len(in) {
		st := s.Stream()
		out := bytes.Clone(st.Write([]byte(in[:cut])))
		out = append(out, st.Write([]byte(in[cut:]))...)
		out = append(out, st.Flush()...)
		if !bytes.Equal(out, want) || st.Count() != wantN {
			t.Fatalf("cut at %d: %q, want %q", cut, out, want)
		}
	}
	for _, size := range []int{1, 2, 3, 7, 8, 9, 23, 64} {
		st := s.Stream()
		var out []byte
		for c := range slices.Chunk([]byte(in), size) {
			out = append(out, st.Write(c)...)
		}
		out = append(out, st.Flush()...)
		if !bytes.Equal(out, want) {
			t.Fatalf("chunks of %d: %q, want %q", size, out, want)
		}
	}
}

func TestCase40NoOverMasking(t *testing.T) {
	for name, v := range map[string]string{
		"short": "abc", "seven": "a1b2c3d", "uniform": "aaaaaaaaaaaaaaaa", "two letters": "abababababababab",
		"everyday": "development", "port": "3000", "spaces": "   \n\n   ", "empty": "", "padded": " a b c d ",
	} {
		s := New([]Secret{{Value: []byte(v)}})
		if s.Len() != 0 || s.Ignored() != 1 {
			t.Errorf("%s: %d patterns, %d ignored", name, s.Len(), s.Ignored())
		}
		if out, n := s.Redact([]byte("x " + v + " development aaaaaaaaaaaaaaaaaa")); n != 0 || IsPlaceholder(out) {
			t.Errorf("%s masked %q", name, out)
		}
	}
	source := "package keys\n\nimport \"fmt\"\n\nfunc describe(err error) error {\n\treturn fmt.Errorf(\"describe: %w\", err)\n}\n"
	s := New([]Secret{{Value: []byte(source)}})
	in := "package keys\nimport \"fmt\"\nfunc other(err error) error { return fmt.Errorf(\"other: %w\", err) }\n"
	if out, n := s.Redact([]byte(in)); n != 0 {
		t.Errorf("ordinary code masked: %q", out)
	}
}

func TestCase41PlaceholderIsRecognised(t *testing.T) {
	out, _ := knownSet(t).Redact([]byte("KEY=" + token))
	if string(out) != "KEY="+Placeholder || !IsPlaceholder(out) || IsPlaceholder([]byte("[REDACTED]")) {
		t.Errorf("got %q", out)
	}
}

func TestOverlapsAndRepeats(t *testing.T) {
	s := New([]Secret{{Value: []byte("abcdefgh12")}, {Value: []byte("abcdefgh12345678")}, {Value: []byte("2345678zyxw")}})
	for in, want := range map[string]string{
		"abcdefgh12":                 Placeholder,
		"abcdefgh123":                Placeholder + "3",
		"abcdefgh12345678":           Placeholder,
		"abcdefgh12345678zyxw!":      Placeholder + "!",
		"abcdefgh12abcdefgh12":       Placeholder,
		"abcdefgh12 abcdefgh12":      Placeholder + " " + Placeholder,
		"abcdefgh1 abcdefgh":         "abcdefgh1 abcdefgh",
		"\x1b[1mabcd\x1b[0mefgh12":   "\x1b[1m" + Placeholder,
		"\x1b[abcdefgh12;\x1b[0mabc": "\x1b[" + Placeholder + ";\x1b[0mabc",
	} {
		for size := 1; size <= len(in); size++ {
			st := s.Stream()
			var out []byte
			for c := range slices.Chunk([]byte(in), size) {
				out = append(out, st.Write(c)...)
			}
			if out = append(out, st.Flush()...); string(out) != want {
				t.Errorf("%q in chunks of %d: %q, want %q", in, size, out, want)
			}
		}
	}
}

func TestHeldIsBounded(t *testing.T) {
	st := knownSet(t).Stream()
	st.Write([]byte(token[:12]))
	pad := bytes.Repeat([]byte("\n"), 64<<10)
	total := 12
	for range 64 {
		st.Write(pad)
		total += len(pad)
		if held := len(st.plain.raw) + len(st.terminal.raw); held > 2*(maxHeld+len(pad)) {
			t.Fatalf("holds %d bytes", held)
		}
	}
}

func TestNilAndEmpty(t *testing.T) {
	var s *Set
	if out, n := s.Redact([]byte(token)); string(out) != token || n != 0 {
		t.Errorf("nil set changed %q", out)
	}
	st := s.Stream()
	if out := st.Write([]byte(token)); string(out) != token || st.Flush() != nil || st.Count() != 0 {
		t.Errorf("nil stream changed %q", out)
	}
	if New(nil).Len() != 0 || New([]Secret{{Value: make([]byte, maxValues+1)}}).Ignored() != 1 {
		t.Error("bounds not kept")
	}
}

func FuzzStreamNeverLeaks(f *testing.F) {
	f.Add([]byte("some text "), uint64(1), uint8(0))
	f.Add([]byte("\x1b[0m\x00\r\n"), uint64(2), uint8(7))
	f.Add([]byte(token[:10]), uint64(3), uint8(13))
	s := knownSet(f)
	var forms []string
	for _, v := range []string{token, password} {
		m := wireForms(v)
		for _, name := range slices.Sorted(func(yield func(string) bool) {
			for k := range m {
				if !yield(k) {
					return
				}
			}
		}) {
			forms = append(forms, m[name])
		}
	}
	f.Fuzz(func(t *testing.T, noise []byte, seed uint64, which uint8) {
		if len(noise) > 4<<10 {
			return
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		form := forms[int(which)%len(forms)]
		at := rng.IntN(len(noise) + 1)
		// A blank line ends whatever escape sequence the noise left open.
		in := slices.Concat(noise[:at], []byte("\n\n"), []byte(form), []byte("\n\n"), noise[at:])
		want, n := s.Redact(in)
		if n == 0 || bytes.Contains(want, []byte(form)) {
			t.Fatalf("leaked %q in %q", form, want)
		}
		st := s.Stream()
		var out []byte
		for rest := in; len(rest) > 0; {
			k := 1 + rng.IntN(min(len(rest), 40))
			out = append(out, st.Write(rest[:k])...)
			rest = rest[k:]
		}
		if out = append(out, st.Flush()...); !bytes.Equal(out, want) {
			t.Fatalf("chunks changed the result:\n%q\n%q", out, want)
		}
	})
}

func BenchmarkRedact32KiB(b *testing.B) {
	var secrets []Secret
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		v := make([]byte, 24)
		for i := range v {
			v[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"[rng.IntN(62)]
		}
		secrets = append(secrets, Secret{Value: v})
	}
	s := New(secrets)
	line := "ok  \texample.com/mod/pkg\t0.012s coverage: 81.2% of statements in ./internal/thing\n"
	in := []byte(strings.Repeat(line, 32<<10/len(line)+1))[:32<<10]
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		s.Redact(in)
	}
}
