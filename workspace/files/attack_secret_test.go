package files

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/redact"
)

var deniedNames = []string{".env", ".env.example", ".envrc", "deploy_key", "api_key.go", ".ssh/config", "credentials.json", "credentials/x", "cert.pem", "id_ed25519",
	".netrc", ".npmrc", ".pypirc", ".git-credentials", ".docker/config.json", ".kube/config", ".aws/credentials", ".aws/config",
	"a.p12", "a.pfx", "a.jks", "a.keystore", "terraform.tfstate", "terraform.tfstate.backup", ".git/config", ".git/modules/m/config", ".weft/state", tempPrefix + "x"}

func TestCase28And29EveryVerbRefusesDeniedNames(t *testing.T) {
	files := map[string]string{"ok.txt": "ok"}
	for _, n := range deniedNames {
		files["sub/"+n] = "K=topsecretvalue"
	}
	there, dir := granted(t, files)
	before := snapshot(t, dir)
	missing, _ := granted(t, nil)
	for _, n := range deniedNames {
		for _, p := range []string{"app/sub/" + n, "app/sub/" + strings.ToUpper(n)} {
			a, b := use(t, there).each(p), use(t, missing).each(p)
			for verb := range a {
				if verdict(a[verb]) != "secret_path" || a[verb].Error() != b[verb].Error() {
					t.Errorf("%s of %s: %v; when it is missing: %v", verb, p, a[verb], b[verb])
				}
			}
		}
	}
	for _, o := range use(t, there).outputs("app", "topsecret") {
		for _, n := range deniedNames {
			if strings.Contains(o, filepath.Base(n)+"\n") && filepath.Base(n) != "x" || strings.Contains(o, "K=") {
				t.Errorf("%s shown: %s", n, o)
			}
		}
		if !strings.Contains(o, "omitted=") {
			t.Errorf("no count of what was left out: %s", o)
		}
	}
	if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
		t.Errorf("the tree changed: %s", diff)
	}
}

func TestCase28CarveOut(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{".env.example": "A=1", "foreign_key.go": "package x", ".env": "A=1", "api_keys/.env.example": "A=1"})
	rules, err := DefaultRules().Allow(".env.example", "foreign_key.go")
	must(t, err)
	tree, err := OpenTree([]RootSpec{{Name: "app", Dir: dir, Rights: all}}, rules)
	must(t, err)
	defer tree.Close()
	for p, want := range map[string]string{"app/.env.example": "ok", "app/foreign_key.go": "ok", "app/.env": "secret_path", "app/api_keys/.env.example": "secret_path", "app/.ENV.Example": "not_found"} {
		if _, err := use(t, tree).read(p); verdict(err) != want {
			t.Errorf("%s: %v, want %s", p, err, want)
		}
	}
	if DefaultRules().Secret(".env.example") == false {
		t.Error("Allow changed the default rules")
	}
	more, err := DefaultRules().Deny("*.private", "conf/prod.yml")
	must(t, err)
	for s, want := range map[string]bool{"a.private": true, "x/conf/prod.yml": true, "conf/dev.yml": false, ".env": true} {
		if more.Secret(s) != want {
			t.Errorf("Deny: %s is %v", s, !want)
		}
	}
	if _, err := DefaultRules().Deny("a//b"); err == nil {
		t.Error("a bad pattern was taken")
	}
}

// TestCase30And31RenamedSecrets: what a command renamed stays denied.
func TestCase30And31RenamedSecrets(t *testing.T) {
	tree, dir := granted(t, map[string]string{".env": "K=topsecretvalue", ".ssh/id_rsa": "key", ".ssh/known": "hosts", "ok.txt": "ok"})
	must(t, os.Rename(filepath.Join(dir, ".env"), filepath.Join(dir, "notes.txt")))
	must(t, os.Rename(filepath.Join(dir, ".ssh"), filepath.Join(dir, "s2")))
	must(t, os.WriteFile(filepath.Join(dir, ".env"), []byte("K=anothersecret"), 0o600))
	h := use(t, tree)
	check := func(when string) {
		for _, p := range []string{"app/notes.txt", "app/s2", "app/s2/id_rsa", "app/s2/known", "app/.env", "app/.ssh"} {
			for _, verb := range []string{"read", "list", "grep", "stat", "edit"} {
				if err := h.each(p)[verb]; verdict(err) != "secret_path" {
					t.Errorf("%s: %s of %s: %v", when, verb, p, err)
				}
			}
		}
		for _, o := range h.outputs("app", "K=|key|hosts") {
			if strings.Contains(o, "notes.txt") || strings.Contains(o, "s2") {
				t.Errorf("%s: shown: %s", when, o)
			}
		}
	}
	check("before the scan")
	for range 3 {
		must(t, tree.Rescan(h.ctx))
		check("after the scan")
	}
	denied, err := tree.Denied(h.ctx)
	must(t, err)
	want := []DeniedPath{{"app", ".env", false}, {"app", "notes.txt", false}, {"app", "s2", true}}
	if diff := cmp.Diff(want, denied); diff != "" {
		t.Error(diff)
	}
}

func TestCase32And45ProtectedNames(t *testing.T) {
	tree, dir := granted(t, map[string]string{".git/HEAD": "ref: refs/heads/main\n", ".git/config": "[core]\n\thooksPath = .husky\n[include]\n\tpath = ../inc.cfg\n", "s/x": "",
		".husky/pre-commit": "#!/bin/sh\n", ".claude/settings.json": "{}", "package.json": "{}", ".gitattributes": "* text\n"})
	ctx := use(t, tree).ctx
	for _, p := range []string{".git/hooks/x", ".git/HEAD", ".GIT/hooks/y", "s/.git", "s/.git/config2", ".gitmodules", "s/.gitattributes", ".gitattributes", ".claude/settings.json", ".claude/hooks/x",
		".husky/pre-commit", ".husky/new", ".Husky/new", "inc.cfg", ".mcp.json", ".vscode/tasks.json", ".git/commondir", ".git/info/attributes"} {
		for _, q := range []WriteRequest{{Mode: "create"}, {Mode: "create", Mkdirs: true}, {Mode: "overwrite", IfSHA256: sumOf([]byte("{}"))}} {
			q.Path, q.Content = pathOf(t, "app/"+p), []byte("evil")
			if _, err := tree.Write(ctx, q); verdict(err) != "secret_path" {
				t.Errorf("%s %s: %v", q.Mode, p, err)
			}
		}
		if _, err := tree.Edit(ctx, EditRequest{Path: pathOf(t, "app/"+p), Edits: []TextEdit{{Old: "a", New: "b"}}}); verdict(err) != "secret_path" {
			t.Errorf("edit %s: %v", p, err)
		}
	}
	for _, p := range []string{".git/HEAD", ".husky/pre-commit", ".claude/settings.json", ".gitattributes"} {
		if _, err := use(t, tree).read("app/" + p); err != nil {
			t.Errorf("read %s: %v", p, err)
		}
		if r, _ := tree.Stat(ctx, StatRequest{pathOf(t, "app/"+p)}); r.Writable {
			t.Errorf("%s is said to be writable", p)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, ".vscode")); !os.IsNotExist(err) {
		t.Error("an empty directory was left behind")
	}
	denied, err := tree.Denied(ctx)
	if err != nil || len(denied) != 0 {
		t.Errorf("git's own files are the sandbox's: %v %v", denied, err)
	}
}

const (
	secretValue = "hV3x-9Qz7_LmP2wT8bRk"
	pemBody     = "MC4CAQAwBQYDK2VwBCIEIJ3fT9mQe0vWcK1p7hYxq8sLr2ZbNd5Ua6Gt4Xo0BvEi"
)

// redacted is a tree whose secrets are known to the real redactor.
func redacted(t testing.TB, files map[string]string) (*Tree, string) {
	t.Helper()
	files[".env"] = "API_TOKEN=" + secretValue + "\n"
	files["server.pem"] = "-----BEGIN PRIVATE KEY-----\n" + pemBody + "\n-----END PRIVATE KEY-----\n"
	tree, dir := granted(t, files)
	values, err := tree.SecretValues(use(t, tree).ctx)
	must(t, err)
	var known []redact.Secret
	for _, v := range values {
		known = append(known, redact.Secret{Source: v.Source, Value: v.Value})
	}
	tree.SetRedactor(redact.New(known))
	return tree, dir
}

func TestCase35To38CopiesAreRedacted(t *testing.T) {
	long := strings.Repeat("0123456789 abcdef\n", 5000)
	tree, _ := redacted(t, map[string]string{
		"copy.txt":   "first\nkey is " + secretValue + " here\nlast\n",
		"b64.txt":    base64.StdEncoding.EncodeToString([]byte("x" + secretValue + "y")),
		"pem.txt":    "a\n" + pemBody + "\nb\n",
		"deep.txt":   long + secretValue + "\n" + long,
		"mini.js":    strings.Repeat("var a=1;", 4000) + secretValue + strings.Repeat("var b=2;", 4000),
		"pic.png":    "\x89PNG\r\n\x1a\n" + secretValue,
		"binary.bin": "\x00\x01" + secretValue + "\x00",
	})
	h := use(t, tree)
	leaks := func(b []byte) bool {
		return strings.Contains(string(b), secretValue[3:17]) || strings.Contains(string(b), pemBody[10:40])
	}
	for _, p := range []string{"copy.txt", "b64.txt", "pem.txt", "deep.txt", "mini.js", "pic.png", "binary.bin"} {
		stat, err := tree.Stat(h.ctx, StatRequest{pathOf(t, "app/"+p)})
		must(t, err)
		whole, redactions := []byte{}, 0
		for _, enc := range []string{"base64", "auto"} {
			r, err := tree.Read(h.ctx, ReadRequest{Path: pathOf(t, "app/"+p), Encoding: enc})
			if err == nil && leaks(r.Body) {
				t.Errorf("%s leaks", p)
			}
			redactions += r.Redacted
		}
		// 42: adjacent ranges of any length show no more, and together are the
		// redacted file.
		for _, step := range []int64{7, 11, 4096, 10_000} {
			if stat.Size > 50_000 && step < 4096 {
				continue
			}
			whole = whole[:0]
			for off := int64(0); off < stat.Size; off += step {
				r, err := tree.Read(h.ctx, ReadRequest{Path: pathOf(t, "app/"+p), Offset: off, Length: step, Encoding: "base64"})
				must(t, err)
				whole = append(whole, r.Body...)
				redactions += r.Redacted
			}
			if leaks(whole) || !strings.Contains(string(whole), redact.Placeholder) {
				t.Errorf("%s in ranges of %d: leaks or isn't redacted", p, step)
			}
		}
		if redactions == 0 {
			t.Errorf("%s: no redaction counted", p)
		}
	}
	g, err := tree.Grep(h.ctx, GrepRequest{Path: pathOf(t, "app"), Pattern: "key is|MC4C|" + secretValue[:6], Context: 2})
	if err != nil || leaks(g.Body) || !strings.Contains(string(g.Body), "key is [REDACTED") {
		t.Errorf("grep: %s %v", g.Body, err)
	}
	r, err := tree.Read(h.ctx, ReadRequest{Path: pathOf(t, "app/deep.txt"), StartLine: 4999, MaxLines: 4})
	if err != nil || r.StartLine != 4999 || r.EndLine != 5002 || string(r.Body) != "0123456789 abcdef\n0123456789 abcdef\n[REDACTED:weft]\n0123456789 abcdef\n" {
		t.Errorf("lines around a secret: %+v %v", r, err)
	}
}

// TestCase43GrepIsNoOracle: no pattern tells a right guess of a secret from a
// wrong one, in any mode, nor does an edit.
func TestCase43GrepIsNoOracle(t *testing.T) {
	a, _ := redacted(t, map[string]string{"copy.txt": "key=" + secretValue + "\nother=1\n"})
	other := "zzzz" + secretValue[4:]
	files := map[string]string{".env": "API_TOKEN=" + other + "\n", "server.pem": "x", "copy.txt": "key=" + other + "\nother=1\n"}
	b, _ := granted(t, files)
	b.SetRedactor(redact.New([]redact.Secret{{Value: []byte(other)}}))
	patterns := []string{"^key=hV3x", "^key=[a-m]", "^key=[^h]", "^key=.{20}$", "hV3x-9Qz7_LmP2wT8bRk", "key=h|other", "^key=\\w{4}", "(?s)key=h.*other", "^.{24}$", "R|k$"}
	for _, p := range patterns {
		for _, mode := range []string{"content", "files", "count"} {
			for _, multi := range []bool{false, true} {
				q := GrepRequest{Path: pathOf(t, "app"), Pattern: p, Mode: mode, Multiline: multi}
				x, err1 := a.Grep(use(t, a).ctx, q)
				y, err2 := b.Grep(use(t, b).ctx, q)
				if fmt.Sprint(err1) != fmt.Sprint(err2) || string(x.Body) != string(y.Body) || x.Hits != y.Hits || x.Files != y.Files {
					t.Errorf("%s %s: %q and %q", p, mode, x.Body, y.Body)
				}
			}
		}
	}
	for _, old := range []string{"hV3x", "key=hV3x", "key=h", "key=", "9Qz7_LmP2wT8bRk\nother", "k\n", "=", "other=1"} {
		for _, e := range []TextEdit{{Old: old, New: "?"}, {Old: old, New: "?", All: true}, {Old: old, New: "?", Count: 2}} {
			q := EditRequest{Path: pathOf(t, "app/copy.txt"), Edits: []TextEdit{e}, DryRun: true}
			x, err1 := a.Edit(use(t, a).ctx, q)
			y, err2 := b.Edit(use(t, b).ctx, q)
			if fmt.Sprint(err1) != fmt.Sprint(err2) || string(x.Body) != string(y.Body) || x.Replaced != y.Replaced {
				t.Errorf("edit %q: %v %q and %v %q", old, err1, x.Body, err2, y.Body)
			}
			if strings.Contains(fmt.Sprint(err1)+string(x.Body), secretValue[:6]) {
				t.Errorf("edit %q shows the secret: %v %s", old, err1, x.Body)
			}
		}
	}
}

func TestCase41PlaceholdersAreNotWrittenBack(t *testing.T) {
	const doc = "mentions [REDACTED:weft] itself\n"
	tree, dir := redacted(t, map[string]string{"conf.yml": "a: 1\nkey: " + secretValue + "\nb: 2\n", "doc.md": doc})
	ctx := use(t, tree).ctx
	r, err := tree.Read(ctx, ReadRequest{Path: pathOf(t, "app/conf.yml")})
	must(t, err)
	before := snapshot(t, dir)
	_, err = tree.Write(ctx, WriteRequest{Path: pathOf(t, "app/conf.yml"), Mode: "overwrite", IfSHA256: r.SHA256, Content: []byte(strings.Replace(string(r.Body), "a: 1", "a: 2", 1))})
	if verdict(err) != "bad_arguments" {
		t.Errorf("overwrite: %v", err)
	}
	for _, e := range []TextEdit{{Old: "a: 1", New: "a: [REDACTED:weft]"}, {Old: "key: [REDACTED:weft]", New: "key: [REDACTED:weft] "}, {Old: "[REDACTED:weft]", New: "x"}, {Old: "b: 2", New: "[REDACTED]"}} {
		if _, err := tree.Edit(ctx, EditRequest{Path: pathOf(t, "app/conf.yml"), Edits: []TextEdit{e}}); err == nil {
			t.Errorf("edit %+v was done", e)
		}
	}
	if _, err := tree.Write(ctx, WriteRequest{Path: pathOf(t, "app/new.txt"), Mode: "create", Content: []byte("x=[REDACTED:weft]")}); verdict(err) != "bad_arguments" {
		t.Errorf("create: %v", err)
	}
	if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
		t.Fatalf("changed: %s", diff)
	}
	// Editing around the secret keeps it, and a file that has the words may keep them.
	if _, err := tree.Edit(ctx, EditRequest{Path: pathOf(t, "app/conf.yml"), Edits: []TextEdit{{Old: "a: 1", New: "a: 2"}, {Old: "\nb: 2", New: "\nb: 3"}}}); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "conf.yml")); string(b) != "a: 2\nkey: "+secretValue+"\nb: 3\n" {
		t.Errorf("the secret is lost: %q", b)
	}
	if _, err := tree.Edit(ctx, EditRequest{Path: pathOf(t, "app/doc.md"), Edits: []TextEdit{{Old: "itself", New: "too"}}}); err != nil {
		t.Errorf("a file with the words: %v", err)
	}
}

func TestSecretValues(t *testing.T) {
	tree, _ := granted(t, map[string]string{
		".env":              "export A=plainvalue1\nB=\"quoted value 2\" # c\nC='single-quoted-3'\nD=https://u:urlpassword4@h/x\nSHORT=abc\n# comment\nE = spaced-value-5 # note\n",
		"api_key.go":        "package x\n\nconst k = \"tok_9f8a7b6c5d4e3f2a1b\"\n\nfunc f() error { return nil }\n",
		".netrc":            "machine h login me password netrcpass6\n",
		".npmrc":            "//registry.example/:_authToken=npm_Abc123token7\nalways-auth=true\n",
		".git-credentials":  "https://me:ghp_credential8@github.com\n",
		".git/config":       "[remote \"origin\"]\n\turl = https://x:gittoken99999@h/r.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n",
		"credentials.json":  `{"client_secret": "json-secret-9", "project": "short", "note": "a long text with spaces in it"}`,
		"id_ed25519":        "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n",
		"public.txt":        "password=not-in-a-denied-file",
		"excluded/data.txt": "password=excluded-not-secret",
	})
	values, err := tree.SecretValues(use(t, tree).ctx)
	must(t, err)
	var got []string
	for _, v := range values {
		got = append(got, string(v.Value))
		if !strings.HasPrefix(v.Source, "app/") {
			t.Errorf("source %q", v.Source)
		}
	}
	for _, want := range []string{"plainvalue1", "quoted value 2", "single-quoted-3", "urlpassword4", "spaced-value-5", "tok_9f8a7b6c5d4e3f2a1b",
		"netrcpass6", "npm_Abc123token7", "ghp_credential8", "gittoken99999", "json-secret-9", "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is missing", want)
		}
	}
	for _, v := range got {
		if strings.Contains(v, "func f()") || strings.Contains(v, "not-in-a-denied") || v == "abc" || strings.Contains(v, "refs/heads/*:") {
			t.Errorf("%q is no secret", v)
		}
	}
}

// TestCase33And34DeniedListsTops: the sandbox masks one directory, not each file.
func TestDeniedListsTops(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{".aws/a": "", ".aws/b/c": "", "x/.env": "", "node_modules/p/.npmrc": "", "vendor/y/z": "", "keep": ""})
	tree := open(t, RootSpec{Name: "app", Dir: dir, Rights: workspace.Read, Exclude: []string{"vendor/"}})
	denied, err := tree.Denied(use(t, tree).ctx)
	must(t, err)
	want := []DeniedPath{{"app", ".aws", true}, {"app", "node_modules/p/.npmrc", false}, {"app", "vendor", true}, {"app", "x/.env", false}}
	if diff := cmp.Diff(want, denied); diff != "" {
		t.Error(diff)
	}
	if v, err := tree.SecretValues(use(t, tree).ctx); err != nil || len(v) != 0 {
		t.Errorf("values of empty or excluded files: %v %v", v, err)
	}
	// Made later, as .env is by a set-up script.
	put(t, dir, map[string]string{"y/.env": "A=b"})
	if denied, err = tree.Denied(use(t, tree).ctx); err != nil || len(denied) != 5 {
		t.Errorf("after a new .env: %v %v", denied, err)
	}
}
