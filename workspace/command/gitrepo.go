package command

import (
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weftmesh/weft/workspace"
)

// gitSeen is what a repository's configuration said when it was last read.
type gitSeen struct {
	config, worktree mark
	list             string // git config --list -z
}

// author returns who commits are by: nobody of ours if the repository says.
func (g gitSeen) author(by Author) Author {
	if len(configured(g.list, "user.name")) > 0 && len(configured(g.list, "user.email")) > 0 {
		return Author{}
	}
	if by.Name == "" || by.Email == "" {
		return Author{"weft", "weft@localhost"}
	}
	return by
}

// repository checks that git may run in a root: a plain repository whose
// configuration holds inert keys only (cases 44 to 47).
func (r *Runner) repository(ctx context.Context, root *rootID) (gitSeen, error) {
	dir := filepath.Join(root.HostDir, ".git")
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return gitSeen{}, workspace.Fail("not_found", "%s is not the top of a git repository", root.Name)
	case !info.IsDir():
		return gitSeen{}, workspace.Refuse(workspace.CommandNotGranted, "%s/.git is a link or a gitfile (linked worktree or submodule), which git commands are not run on; the requester can grant the main repository", root.Name)
	}
	for _, redirect := range []string{"commondir", "gitdir"} {
		if _, err := os.Lstat(filepath.Join(dir, redirect)); err == nil {
			return gitSeen{}, workspace.Refuse(workspace.CommandNotGranted, "the repository is redirected by .git/%s, which git commands are not run on", redirect)
		}
	}
	seen, err := r.configuration(ctx, root)
	if err != nil {
		return gitSeen{}, err
	}
	if key := refusedKey(seen.list); key != "" {
		return gitSeen{}, workspace.Refuse(workspace.CommandNotGranted,
			"the repository's git configuration holds %q, which is not on the list of inert keys and could run a program; the requester can remove it (git config --unset) or do this step themselves", key)
	}
	return seen, nil
}

// configuration reads a repository's own configuration with git itself, so
// that no second parser can disagree, inside the sandbox. The answer is kept
// while the files stay as they are: no tool and no command can change them.
func (r *Runner) configuration(ctx context.Context, root *rootID) (gitSeen, error) {
	r.gitCheck.Lock()
	defer r.gitCheck.Unlock()
	var seen gitSeen
	files := []struct {
		name string
		mark *mark
	}{{"config", &seen.config}, {"config.worktree", &seen.worktree}}
	var read []string
	for _, f := range files {
		info, err := os.Lstat(filepath.Join(root.HostDir, ".git", f.name))
		if err != nil {
			continue
		}
		if !info.Mode().IsRegular() || info.Size() > maxGitConfig {
			return seen, workspace.Refuse(workspace.CommandNotGranted, "the repository's .git/%s is not a plain file of a sensible size", f.name)
		}
		*f.mark = markOf(info)
		read = append(read, f.name)
	}
	r.mu.Lock()
	old, ok := r.gitSeen[root.Name]
	r.mu.Unlock()
	if ok && old.config == seen.config && old.worktree == seen.worktree {
		return old, nil
	}
	for _, name := range read {
		at := r.placeOf(root, r.sandbox.Available).root + "/.git/" + name
		out, err := r.ask(ctx, "git", "config", "--file", at, "--no-includes", "--list", "-z")
		if err != nil {
			r.cfg.Log.Warn("git configuration could not be read", "root", root.Name, "err", err)
			return seen, workspace.Refuse(workspace.CommandNotGranted, "the repository's .git/%s can't be read by git", name)
		}
		seen.list += string(out)
	}
	r.mu.Lock()
	r.gitSeen[root.Name] = seen
	r.mu.Unlock()
	return seen, nil
}

// gitTargets lists the files a configuration points at that may lie in the
// tree: whoever writes them runs code at the owner's next git command (case
// 48).
func gitTargets(list string) []string {
	var out []string
	for entry := range strings.SplitSeq(list, "\x00") {
		key, val, _ := strings.Cut(entry, "\n")
		key = strings.ToLower(key)
		switch {
		case val == "" || val == "/dev/null":
		case key == "core.hookspath", key == "core.attributesfile", key == "include.path",
			strings.HasPrefix(key, "includeif.") && strings.HasSuffix(key, ".path"):
			out = append(out, val)
		}
	}
	return out
}

// guards lists what is mounted read-only in each writable root.
func (r *Runner) guards(ctx context.Context, now *footprint) (map[string][]string, error) {
	out := map[string][]string{}
	for i := range r.roots {
		root := &r.roots[i]
		if !root.Writable {
			continue
		}
		var list []string
		if now != nil {
			list = slices.Clone(now.roots[root.Name].git)
		}
		if !slices.Contains(list, ".git") {
			list = append(list, ".git")
		}
		targets := slices.Clone(r.hooks)
		if info, err := os.Lstat(filepath.Join(root.HostDir, ".git")); err == nil && info.IsDir() && r.tools["git"] != nil {
			seen, err := r.configuration(ctx, root)
			if err != nil {
				return nil, err
			}
			targets = append(targets, gitTargets(seen.list)...)
		}
		for _, t := range targets {
			list = append(list, inTree(root.HostDir, t)...)
		}
		list = append(list, ".gitattributes", ".gitmodules")
		slices.Sort(list)
		out[root.Name] = slices.DeleteFunc(slices.Compact(list), func(rel string) bool { return rel == "." || rel == "" })
	}
	return out, nil
}

// inTree returns where a configured path lies in a root. Git reads hooksPath
// relative to the top of the tree and include.path relative to .git; both are
// taken.
func inTree(root, configured string) []string {
	var out []string
	for _, base := range []string{root, filepath.Join(root, ".git")} {
		p := configured
		if !filepath.IsAbs(p) {
			p = filepath.Join(base, filepath.FromSlash(p))
		}
		rel, err := filepath.Rel(root, filepath.Clean(p))
		if err != nil || !filepath.IsLocal(rel) || rel == "." || within(p, filepath.Join(root, ".git")) {
			continue
		}
		if info, err := os.Lstat(p); err == nil && info.Mode()&fs.ModeSymlink == 0 {
			out = append(out, path.Clean(filepath.ToSlash(rel)))
		}
	}
	return out
}
