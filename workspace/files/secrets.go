package files

import (
	"bytes"
	"context"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Limits of what is taken out of denied files.
const (
	secretFileSize  = 256 << 10
	secretFileCount = 2000
	secretValues    = 20_000
	secretBytes     = 4 << 20
	minSecret       = 8
	// minToken is the shortest value that counts as a secret by its looks alone.
	minToken = 16
)

// SecretValues returns the contents of the files with secret names, for the
// redactor: each as a whole, and the values that its format names (the values of
// an .env file, passwords in URLs, quoted tokens in source code). It reads at
// most 2000 files of at most 256 KiB, 20,000 values and 4 MiB; what is beyond
// is not known to the redactor, though it stays denied. Files that only an
// exclude glob denies are not read.
func (t *Tree) SecretValues(ctx context.Context) ([]Secret, error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return nil, explain(err, "the granted folders")
	}
	defer leave()
	c := collector{seen: map[string]bool{}}
	files := t.secretFiles()
	for _, d := range files[:min(len(files), secretFileCount)] {
		if err := t.alive(ctx); err != nil {
			return nil, explain(err, "the granted folders")
		}
		r := t.root(d.Root)
		dir, err := r.base.pin("")
		if err != nil {
			return nil, explain(err, d.Root)
		}
		b := readSmall(dir, d.Rel, secretFileSize)
		dir.close()
		c.source = d.Root + "/" + d.Rel
		c.file(fold(path.Base(d.Rel)), b)
	}
	return c.out, nil
}

// collector gathers values, each once.
type collector struct {
	source string
	out    []Secret
	seen   map[string]bool
	size   int
}

func (c *collector) add(v string) {
	v = strings.TrimSpace(v)
	if len(v) < minSecret || c.seen[v] || len(c.out) == secretValues || c.size+len(v) > secretBytes {
		return
	}
	c.seen[v] = true
	c.size += len(v)
	c.out = append(c.out, Secret{Source: c.source, Value: []byte(v)})
}

// sourceCode has suffixes of files whose lines are code: only the tokens quoted
// in them are secrets, or every other file would be redacted line by line.
var sourceCode = []string{".go", ".js", ".jsx", ".ts", ".tsx", ".mjs", ".py", ".rb", ".java", ".kt", ".rs", ".c", ".h",
	".cc", ".cpp", ".cs", ".php", ".swift", ".scala", ".sh", ".sql", ".html", ".css", ".vue", ".md", ".txt", ".svg"}

func (c *collector) file(base string, b []byte) {
	if len(b) == 0 {
		return
	}
	text := string(b)
	env := strings.HasPrefix(base, ".env")
	switch {
	case base == "config" || base == "config.worktree": // git's: URLs and headers only
		c.urls(text)
		c.pairs(text, false)
		return
	case slices.Contains(sourceCode, path.Ext(base)) && !env:
		c.quoted(text)
		c.urls(text)
		return
	case bytes.Contains(b, []byte("PRIVATE KEY")) || bytes.IndexByte(b, 0) >= 0:
		c.add(text)
		return
	}
	c.add(text)
	c.urls(text)
	c.pairs(text, env)
	c.quoted(text)
}

// pair finds KEY=value, key: value and netrc's "password value".
var pair = regexp.MustCompile(`(?m)^[ \t]*(?:export[ \t]+|set[ \t]+)?["']?([A-Za-z0-9_./:@-]+?)["']?[ \t]*(?:=|:[ \t]|[ \t])[ \t]*(.+?)[ \t]*[,;]?\r?$`)

// telling are parts of names that hold secrets.
var telling = []string{"pass", "secret", "token", "key", "auth", "cred", "private", "pwd", "signature", "salt", "header", "dsn", "url"}

// pairs adds values by name. In an env file all values are secrets; elsewhere
// those with a telling name, or that look like tokens.
func (c *collector) pairs(text string, all bool) {
	found := pair.FindAllStringSubmatch(text, secretValues)
	found = append(found, jsonPair.FindAllStringSubmatch(text, secretValues)...)
	found = append(found, netrcPair.FindAllStringSubmatch(text, secretValues)...)
	for _, m := range found {
		name, value := strings.ToLower(m[1]), unquote(m[2])
		named := slices.ContainsFunc(telling, func(s string) bool { return strings.Contains(name, s) })
		if all || named || token(value) {
			c.add(value)
		}
		// An Authorization header has its scheme before the token.
		if f := strings.Fields(value); named && len(f) > 1 {
			c.add(f[len(f)-1])
		}
	}
}

// jsonPair finds "key": "value" anywhere in a line, netrcPair netrc's words.
var (
	jsonPair  = regexp.MustCompile(`["']([A-Za-z0-9_.-]+)["'][ \t]*[:=][ \t]*["']([^"'\n]{8,1000})["']`)
	netrcPair = regexp.MustCompile(`\b(password|account)[ \t]+(\S+)`)
)

// unquote takes the quotes off, or a comment behind a bare value.
func unquote(v string) string {
	if len(v) > 1 && (v[0] == '"' || v[0] == '\'' || v[0] == '`') {
		if i := strings.IndexByte(v[1:], v[0]); i >= 0 {
			return v[1 : i+1]
		}
	}
	v, _, _ = strings.Cut(v, " #")
	return strings.TrimSpace(v)
}

var quotedText = regexp.MustCompile("\"([^\"\n\\\\]{16,1000})\"|'([^'\n\\\\]{16,1000})'|`([^`\n]{16,1000})`")

// quoted adds quoted strings that look like tokens.
func (c *collector) quoted(text string) {
	for _, m := range quotedText.FindAllStringSubmatch(text, secretValues) {
		if v := m[1] + m[2] + m[3]; token(v) {
			c.add(v)
		}
	}
}

var urlText = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>` + "`" + `]+@[^\s"'<>` + "`" + `]+`)

// urls adds the passwords in URLs, as written and decoded.
func (c *collector) urls(text string) {
	for _, s := range urlText.FindAllString(text, secretValues) {
		_, rest, _ := strings.Cut(s, "://")
		user := rest[:strings.LastIndexByte(rest, '@')]
		name, pass, ok := strings.Cut(user, ":")
		if !ok {
			pass = name // a token in the place of the user
		}
		c.add(pass)
		if plain, err := url.PathUnescape(pass); err == nil {
			c.add(plain)
		}
	}
}

// token reports whether a value looks random: long, without spaces, with both
// letters and digits, and no path or plain address.
func token(v string) bool {
	if len(v) < minToken || strings.ContainsFunc(v, unicode.IsSpace) || strings.HasPrefix(v, "/") ||
		strings.HasPrefix(v, ".") || strings.Contains(v, "://") || strings.HasPrefix(v, "arn:") {
		return false
	}
	return strings.ContainsFunc(v, unicode.IsDigit) && strings.ContainsFunc(v, unicode.IsLetter)
}
