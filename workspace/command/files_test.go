package command

import (
	"context"
	"strings"
	"testing"

	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/files"
	"github.com/weftmesh/weft/workspace/redact"
)

// With the denylist that sessions use, git works, and nothing of a denied file
// reaches the output of a command.
func TestWithTheRealDenylist(t *testing.T) {
	t.Parallel()
	b := repo(t, withShell)
	b.put(map[string]string{".env": "TOKEN=" + hunter + "\n", "deploy_key": hunter + "\n", ".ssh/id_ed25519": hunter + "\n"})
	git(t, b.dir, "config", "remote.origin.url", "https://u:"+hunter+"@example.com/r.git")
	rules := files.DefaultRules()
	tree, err := files.OpenTree([]files.RootSpec{{Name: "app", Dir: b.dir, Rights: workspace.Read | workspace.Write | workspace.Exec}}, rules)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	b.Runner.cfg.Secret = rules.Secret
	b.Runner.cfg.Denied = func(ctx context.Context) ([]DeniedPath, error) {
		found, err := tree.Denied(ctx)
		var out []DeniedPath
		for _, d := range found {
			out = append(out, DeniedPath{d.Root, d.Rel, d.Dir})
		}
		return out, err
	}
	values, err := tree.SecretValues(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var known []redact.Secret
	for _, v := range values {
		known = append(known, redact.Secret{Value: v.Value})
	}
	set := redact.New(known)
	b.Runner.cfg.Redact = func() *redact.Set { return set }

	for _, argv := range [][]string{{"status", "--porcelain"}, {"log", "-p"}, {"add", "-A"}, {"commit", "--allow-empty", "-m", "x"}, {"diff", "HEAD"}} {
		res := b.git(argv...)
		if res.Exit != 0 || strings.Contains(string(res.Output), "hunter") || strings.Contains(string(res.Output), "deploy") {
			t.Errorf("git %q: %s\n%s", argv, res.Header(), res.Output)
		}
	}
	if got := git(t, b.dir, "ls-files"); got != "a.txt\nsub/b.txt\n" {
		t.Errorf("the index has %q", got)
	}
	res := b.sh(`exec 2>&1; for f in .env deploy_key .ssh/id_ed25519; do cat $f && echo READ; done; cat .git/config; git log --oneline; ls -A .ssh | grep -q . && echo READ names; cat a.txt`)
	if s := string(res.Output); strings.Contains(s, "READ") || strings.Contains(s, "hunter") || !strings.HasSuffix(s, "one\n") {
		t.Errorf("got\n%s", s)
	}
	// A copy that was made before the session is redacted by value.
	b.put(map[string]string{"notes.txt": "the token is " + hunter + "\n"})
	if res := b.sh("cat notes.txt; base64 notes.txt; rev notes.txt"); strings.Contains(string(res.Output), "hunter2") || strings.Count(string(res.Output), redact.Placeholder) != 3 {
		t.Errorf("got\n%s", res.Output)
	}
}
