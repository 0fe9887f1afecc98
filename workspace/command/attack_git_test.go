package command

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftmesh/weft/workspace"
)

// withShell grants scripts as well.
func withShell(c *Config) { c.Allowed = append(c.Allowed, Allowed{Argv: []string{"sh"}}) }

// repo is a box over a repository with one commit.
func repo(t testing.TB, options ...func(*Config)) *box {
	t.Helper()
	options = append([]func(*Config){func(c *Config) { c.Allowed = []Allowed{{Profile: "git-read"}, {Profile: "git-commit"}} }}, options...)
	b := newBox(t, map[string]string{"a.txt": "one\n", "sub/b.txt": "two\n"}, options...)
	git(t, b.dir, "init", "-q", "-b", "main")
	git(t, b.dir, "add", "-A")
	git(t, b.dir, "commit", "-q", "-m", "first")
	return b
}

func (b *box) git(args ...string) Result {
	b.t.Helper()
	res := b.run(Request{Plan: b.plan(append([]string{"git"}, args...)...), Root: "app"})
	return res
}

func (b *box) exists(rel string) bool {
	_, err := os.Lstat(filepath.Join(b.dir, rel))
	return err == nil
}

func (b *box) put(files map[string]string) { put(b.t, b.dir, files) }

func TestGitReadWorks(t *testing.T) {
	t.Parallel()
	b := repo(t)
	b.put(map[string]string{"a.txt": "one\nmore\n", "new.txt": "x\n"})
	for _, c := range []struct {
		argv string
		want []string
	}{
		{"status --porcelain", []string{" M a.txt", "?? new.txt"}},
		{"diff", []string{"+more", "a/a.txt"}},
		{"diff --stat HEAD -- a.txt", []string{"a.txt | 1 +"}},
		{"log --oneline", []string{"first"}},
		{"log -p --stat", []string{"+two", "sub/b.txt"}},
		{"show HEAD", []string{"first", "+one"}},
		{"show HEAD:sub/b.txt", []string{"two"}},
		{"ls-files", []string{"a.txt", "sub/b.txt"}},
		{"blame -s -- a.txt", []string{"one"}},
	} {
		res := b.git(strings.Fields(c.argv)...)
		if res.State != Exited || res.Exit != 0 {
			t.Errorf("git %s: %s\n%s", c.argv, res.Header(), res.Output)
		}
		for _, w := range c.want {
			if !strings.Contains(string(res.Output), w) {
				t.Errorf("git %s: no %q in\n%s", c.argv, w, res.Output)
			}
		}
	}
	if res := b.run(Request{Plan: b.plan("git", "status", "--porcelain"), Cwd: "sub"}); res.Exit != 0 {
		t.Errorf("in a subdirectory: %s\n%s", res.Header(), res.Output)
	}
	if len(b.git("status").Changed) != 0 {
		t.Error("git-read reports changes")
	}
}

func TestGitCommitWorks(t *testing.T) {
	t.Parallel()
	b := repo(t, func(c *Config) { c.Author = Author{"Ann", "ann@example.com"} })
	b.put(map[string]string{"a.txt": "changed\n", "new.txt": "x\n"})
	if res := b.git("add", "-A"); res.Exit != 0 {
		t.Fatalf("add: %s\n%s", res.Header(), res.Output)
	}
	if res := b.git("restore", "--staged", "new.txt"); res.Exit != 0 {
		t.Fatalf("restore: %s\n%s", res.Header(), res.Output)
	}
	res := b.git("commit", "-m", "second: what changed")
	if res.Exit != 0 {
		t.Fatalf("commit: %s\n%s", res.Header(), res.Output)
	}
	if !slices.Contains(res.Changed, "app/.git/logs/HEAD") {
		t.Errorf("the commit isn't among the changes: %q", res.Changed)
	}
	if got := git(t, b.dir, "log", "-1", "--format=%an <%ae> %s"); got != "Ann <ann@example.com> second: what changed\n" {
		t.Errorf("got %q", got)
	}
	if got := git(t, b.dir, "status", "--porcelain"); got != "?? new.txt\n" {
		t.Errorf("left: %q", got)
	}
}

// Case 44: command-valued configuration makes git commands refused, and what
// gets past the list is neutralised.
func TestCase44CommandValuedConfig(t *testing.T) {
	t.Parallel()
	for _, kv := range [][2]string{
		{"core.fsmonitor", "./evil"}, {"core.sshCommand", "./evil"}, {"core.editor", "./evil"}, {"core.pager", "./evil"}, {"core.askPass", "./evil"},
		{"core.worktree", "/"}, {"diff.external", "./evil"}, {"diff.x.textconv", "./evil"}, {"diff.x.command", "./evil"}, {"filter.x.clean", "./evil"},
		{"filter.x.smudge", "./evil"}, {"filter.x.process", "./evil"}, {"merge.x.driver", "./evil"}, {"alias.status", "!./evil"}, {"credential.helper", "!./evil"},
		{"gpg.program", "./evil"}, {"include.path", "../x"}, {"includeIf.gitdir:/.path", "x"}, {"uploadpack.packObjectsHook", "./evil"},
		{"submodule.x.update", "!./evil"}, {"remote.o.vcs", "evil"}, {"remote.o.uploadpack", "./evil"}, {"trailer.x.command", "./evil"}, {"interactive.diffFilter", "./evil"},
		{"core.gitProxy", "./evil"}, {"gc.recentObjectsHook", "./evil"}, {"extensions.worktreeConfig", "true"}, {"unknown.key", "x"}, {"core.attributesFile", "attrs"},
	} {
		t.Run(kv[0], func(t *testing.T) {
			t.Parallel()
			b := repo(t)
			git(t, b.dir, "config", kv[0], kv[1])
			for _, argv := range [][]string{{"git", "status"}, {"git", "diff"}, {"git", "add", "-A"}, {"git", "commit", "-m", "x"}} {
				r := b.refused(workspace.CommandNotGranted, argv...)
				if !strings.Contains(r.Hint, strings.ToLower(strings.Split(kv[0], ".")[0])) {
					t.Errorf("%q: the refusal doesn't name the key: %v", argv, r)
				}
			}
		})
	}
}

// Case 44: what inert-looking settings and files of the tree could still
// trigger is switched off.
func TestCase44Neutralised(t *testing.T) {
	t.Parallel()
	b := repo(t)
	evil := "#!/bin/sh\ntouch \"$GIT_WORK_TREE/pwned\" /work/app/pwned\n"
	b.put(map[string]string{
		"evil": evil, ".husky/pre-commit": evil, ".husky/post-commit": evil, ".husky/post-index-change": evil, ".git/hooks/pre-commit": evil,
		".git/hooks/post-index-change": evil, ".git/hooks/fsmonitor-watchman": evil,
		".gitattributes": "* filter=x diff=x merge=x\n", "a.txt": "changed\n",
	})
	git(t, b.dir, "config", "core.hooksPath", ".husky")
	git(t, b.dir, "config", "core.fsmonitor", "true")
	git(t, b.dir, "config", "commit.gpgSign", "true")
	for _, argv := range [][]string{{"status"}, {"diff"}, {"log", "-p"}, {"show", "HEAD"}, {"blame", "--", "a.txt"}, {"add", "-A"}, {"commit", "-m", "x"}} {
		if res := b.git(argv...); res.Exit != 0 {
			t.Errorf("git %q: %s\n%s", argv, res.Header(), res.Output)
		}
		if b.exists("pwned") {
			t.Fatalf("git %q executed code", argv)
		}
	}
}

// Case 45: nothing that decides what git executes can be written from a
// command that runs code.
func TestCase45GitDirectoryIsReadOnly(t *testing.T) {
	t.Parallel()
	b := repo(t, withShell)
	b.put(map[string]string{".gitattributes": "* text=auto\n", "deep/er/keep": "x"})
	git(t, filepath.Join(b.dir, "deep/er"), "init", "-q")
	git(t, b.dir, "init", "-q", "--bare", "bare")
	before := git(t, b.dir, "config", "--list", "--local")
	res := b.sh(`for f in .git/config .git/hooks/pre-commit .git/commondir .git/config.worktree .git/info/attributes .git/HEAD .git/new \
		.git/modules/x/config .git/objects/x .gitattributes deep/er/.git/config deep/er/.git/hooks/x bare/config bare/hooks/x; do
		mkdir -p "$(dirname "$f")" 2>/dev/null; echo evil >> "$f" && echo "WROTE $f"; done 2>/dev/null
		mv .git .g2 && echo MOVED; rm -rf .git && echo REMOVED; mv deep/er/.git deep/er/g && echo MOVED2; mv bare b2 && echo MOVED3
		ln -sf /tmp .git && ls -ld .git | grep -- '->' ; mkdir .git2 && mv .git2 .git/ && echo MOVED4; true`)
	for _, bad := range []string{"WROTE", "MOVED", "REMOVED", "->"} {
		if strings.Contains(string(res.Output), bad) {
			t.Errorf("%s:\n%s", bad, res.Output)
		}
	}
	if after := git(t, b.dir, "config", "--list", "--local"); after != before {
		t.Errorf("configuration changed:\n%s", after)
	}
	if got := git(t, b.dir, "log", "--oneline"); !strings.Contains(got, "first") {
		t.Errorf("repository damaged: %s", got)
	}
}

// Case 46 and 47: embedded repositories and gitfiles are never discovered.
func TestCase46And47EmbeddedRepositories(t *testing.T) {
	t.Parallel()
	b := repo(t)
	git(t, b.dir, "init", "-q", "--bare", "sub/bare")
	b.put(map[string]string{"evil": "#!/bin/sh\ntouch /work/app/pwned\n"})
	git(t, filepath.Join(b.dir, "sub/bare"), "config", "core.fsmonitor", "/work/app/evil")
	git(t, filepath.Join(b.dir, "sub/bare"), "config", "core.bare", "false")
	git(t, filepath.Join(b.dir, "sub/bare"), "config", "core.worktree", "..")
	b.put(map[string]string{"sub/s/.git": "gitdir: ../bare\n"})
	for _, cwd := range []string{"sub/bare", "sub/s", "sub"} {
		res := b.run(Request{Plan: b.plan("git", "status"), Cwd: cwd})
		if res.Exit != 0 || b.exists("pwned") {
			t.Errorf("in %s: %s pwned=%v\n%s", cwd, res.Header(), b.exists("pwned"), res.Output)
		}
	}
}

// Case 47: a root whose own .git is a gitfile or a link is refused.
func TestCase47GitfileAtTop(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(b *box){
		"gitfile": func(b *box) {
			os.Rename(filepath.Join(b.dir, ".git"), filepath.Join(b.dir, "g"))
			b.put(map[string]string{".git": "gitdir: g\n"})
		},
		"link": func(b *box) {
			os.Rename(filepath.Join(b.dir, ".git"), filepath.Join(b.dir, "g"))
			os.Symlink("g", filepath.Join(b.dir, ".git"))
		},
		"commondir": func(b *box) { b.put(map[string]string{".git/commondir": "../g\n"}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := repo(t)
			make(b)
			b.refused(workspace.CommandNotGranted, "git", "status")
		})
	}
}

// Case 48: files that existing configuration points at are read-only.
func TestCase48ConfiguredTargets(t *testing.T) {
	t.Parallel()
	b := repo(t, withShell)
	b.put(map[string]string{".husky/pre-commit": "#!/bin/sh\n", "conf/extra": "[user]\n", "conf/attrs": "", "conf/free": ""})
	git(t, b.dir, "config", "core.hooksPath", ".husky")
	git(t, b.dir, "config", "include.path", "../conf/extra")
	git(t, b.dir, "config", "core.attributesFile", filepath.Join(b.dir, "conf/attrs"))
	res := b.sh(`for f in .husky/pre-commit .husky/post-commit conf/extra conf/attrs conf/free; do echo x >> $f && echo "WROTE $f"; done 2>/dev/null; mv .husky h2 2>/dev/null && echo MOVED; true`)
	if got := strings.TrimSpace(string(res.Output)); got != "WROTE conf/free" {
		t.Errorf("got %q", got)
	}
}

// Case 49: replacing the git directory around read-only parts of it.
func TestCase49MoveGit(t *testing.T) {
	t.Parallel()
	b := repo(t, withShell)
	res := b.sh(`mv .git .g2 2>&1; mkdir .git 2>&1; cp -r .git .g3 2>/dev/null; rm -rf .git 2>/dev/null; ls -A`)
	if b.exists(".g2") || !b.exists(".git/HEAD") || !b.exists(".git/objects") {
		t.Errorf("moved:\n%s", res.Output)
	}
	if !strings.Contains(string(res.Output), "busy") {
		t.Errorf("expected EBUSY:\n%s", res.Output)
	}
	// The copy is not protected, but it is reported: its writer runs code when
	// the owner enters it.
	if !slices.Contains(res.CreatedDenied, "app/.g3") {
		t.Errorf("the copy isn't reported: %q", res.CreatedDenied)
	}
}

// Case 29 and 30: denied files are not reachable through history, listings or
// the index.
func TestCase29DeniedInHistory(t *testing.T) {
	t.Parallel()
	b := repo(t, func(c *Config) {
		c.Secret = func(rel string) bool {
			return slices.ContainsFunc(strings.Split(strings.ToLower(rel), "/"), func(p string) bool { return strings.HasPrefix(p, ".env") || p == "vault" })
		}
		c.Denied = func(context.Context) ([]DeniedPath, error) {
			return []DeniedPath{{"app", "vault", true}, {"app", ".env", false}}, nil
		}
	})
	b.put(map[string]string{".env": "TOKEN=hunter2hunter2\n", "sub/.ENV.local": "TOKEN=hunter2hunter2\n", "vault/x": "hunter2hunter2\n"})
	git(t, b.dir, "add", "-A", "-f")
	git(t, b.dir, "commit", "-q", "-m", "only secrets")
	b.put(map[string]string{".env": "TOKEN=hunter3hunter3\n"})
	blob := strings.TrimSpace(git(t, b.dir, "rev-parse", "HEAD:.env"))
	for _, argv := range []string{"status", "status --ignored", "diff", "diff HEAD~1", "log -p", "log --stat", "log --name-only --all", "show HEAD", "show HEAD --stat", "ls-files",
		"ls-files -o -m", "diff HEAD~1 HEAD", "show " + blob, "show HEAD HEAD~1 -p", "diff " + blob + " HEAD"} {
		res := b.git(strings.Fields(argv)...)
		if out := strings.ToLower(string(res.Output)); strings.Contains(out, "hunter") || strings.Contains(out, ".env") || strings.Contains(out, "vault") {
			t.Errorf("git %s shows a denied file:\n%s", argv, res.Output)
		}
	}
	if res := b.git("log", "--oneline", "--stat"); !strings.Contains(string(res.Output), "only secrets") {
		t.Errorf("the commit itself is hidden:\n%s", res.Output)
	}
	for _, argv := range []string{"show HEAD:.env", "show HEAD:sub/.ENV.local", "blame -- .env", "diff -- .env", "log -p -- vault/x", "add .env", "commit -m x -- .env", "ls-files .env", "show HEAD:vault"} {
		r := b.refused(workspace.SecretPath, append([]string{"git"}, strings.Fields(argv)...)...)
		if strings.Contains(r.Error(), "hunter") {
			t.Error(r)
		}
	}
	// A tree is no blob: its names aren't listed.
	if res := b.git("show", "HEAD:sub"); strings.Contains(string(res.Output), "ENV") {
		t.Errorf("names of a tree:\n%s", res.Output)
	}
	// add -A leaves denied files alone.
	b.put(map[string]string{"fresh.txt": "x\n"})
	if res := b.git("add", "-A"); res.Exit != 0 {
		t.Errorf("add -A: %s\n%s", res.Header(), res.Output)
	}
	if got := git(t, b.dir, "diff", "--cached", "--name-only"); got != "fresh.txt\n" {
		t.Errorf("staged %q", got)
	}
}

// git-commit needs the write right.
func TestGitCommitNeedsWrite(t *testing.T) {
	t.Parallel()
	b := repo(t, func(c *Config) { c.Roots[0].Writable = false })
	b.refused(workspace.NoRight, "git", "commit", "-m", "x")
	if res := b.git("status"); res.Exit != 0 {
		t.Errorf("git-read in a read-only root: %s\n%s", res.Header(), res.Output)
	}
}

func TestGitWithoutRepository(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "x"}, func(c *Config) { c.Allowed = []Allowed{{Profile: "git-read"}} })
	_, err := b.Run(context.Background(), Request{Plan: b.plan("git", "status"), Root: "app"})
	var failure *workspace.Failure
	if !errors.As(err, &failure) || failure.Reason != "not_found" {
		t.Errorf("got %v", err)
	}
}

// A configuration that changes between two commands is looked at again.
func TestGitConfigIsReread(t *testing.T) {
	t.Parallel()
	b := repo(t)
	if res := b.git("status"); res.Exit != 0 {
		t.Fatal(res.Header())
	}
	git(t, b.dir, "config", "alias.x", "!sh")
	b.refused(workspace.CommandNotGranted, "git", "status")
	git(t, b.dir, "config", "--unset", "alias.x")
	if res := b.git("status"); res.Exit != 0 {
		t.Error(res.Header())
	}
}

func FuzzRefusedKey(f *testing.F) {
	f.Add("core.bare\nfalse\x00remote.o.url\nx\x00")
	f.Add("core.fsmonitor\n./x\x00")
	f.Add("alias.x\n!sh\x00")
	f.Fuzz(func(t *testing.T, list string) {
		if refusedKey(list) != "" {
			return
		}
		for e := range strings.SplitSeq(list, "\x00") {
			key, _, _ := strings.Cut(strings.ToLower(e), "\n")
			for _, bad := range []string{"alias.", "filter.", "include", "credential.", "gpg.", "trailer.", "core.pager", "core.editor", "core.worktree", "diff.external"} {
				if strings.HasPrefix(key, bad) {
					t.Fatalf("%q allowed", key)
				}
			}
		}
	})
}
