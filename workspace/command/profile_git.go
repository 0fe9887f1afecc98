package command

import (
	"regexp"
	"strings"
)

var (
	gitReadVerbs  = []string{"status", "diff", "log", "show", "ls-files", "blame"}
	gitWriteVerbs = []string{"add", "restore", "commit"}
)

func gitLead(verbs []string) [][]string {
	var out [][]string
	for _, v := range verbs {
		out = append(out, []string{"git", v})
	}
	return out
}

var (
	// gitRev names a commit. Blobs and trees can't be named, since their
	// content may be that of a denied file: the plan peels every revision to
	// a commit.
	gitRev    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_./-]{0,200}(@\{[0-9]{1,6}\}|@\{upstream\}|@\{u\})?([~^][0-9]{0,4}){0,8}$`)
	gitFormat = regexp.MustCompile(`^((oneline|short|medium|full|fuller|reference)|t?format:[^\x00-\x08]{0,500}|[^\x00-\x08:]{0,200}%[^\x00-\x08]{1,200})$`)
	// gitSigned are the placeholders that run a signature program.
	gitSigned = regexp.MustCompile(`%[-+ ]?G`)
	gitDate   = regexp.MustCompile(`^[A-Za-z0-9 :.,+/-]{1,60}$`)
	gitAuthor = regexp.MustCompile(`^[\pL\pN _.@<>+'-]{1,100}$`)
	letters   = regexp.MustCompile(`^[A-Za-z*]{1,20}$`)
	lineRange = regexp.MustCompile(`^[0-9]{1,9},\+?[0-9]{1,9}$`)
)

var gitShape = flags(
	each("--stat --numstat --shortstat --name-only --name-status --summary -p --patch -u -w --ignore-all-space -b --ignore-space-change --ignore-blank-lines -M --find-renames --no-renames --minimal --patience --histogram --no-color -z --full-index --dirstat --no-patch -s", flag{}),
	each("-U", flag{glued, number}),
	each("--unified", flag{joined, number}),
	each("--word-diff", flag{optional, regexp.MustCompile(`^(plain|porcelain|none)$`)}),
	each("--diff-filter", flag{joined, letters}),
	each("--abbrev", flag{joined, number}),
)

var gitHistory = flags(gitShape,
	each("--oneline --graph --decorate --no-decorate --abbrev-commit --no-merges --merges --first-parent --reverse --follow --all --branches --tags --topo-order --date-order -i --parents --left-right --cherry-pick --no-notes", flag{}),
	each("-n", flag{glued, number}),
	each("-1 -2 -3 -4 -5 -6 -7 -8 -9 -10 -15 -20 -30 -50 -100", flag{}),
	each("--max-count --skip", flag{value, number}),
	each("--since --until --after --before", flag{value, gitDate}),
	each("--author --committer", flag{value, gitAuthor}),
	each("--grep", flag{value, anyText}),
	each("--format --pretty", flag{joined, gitFormat}),
	each("--date", flag{joined, regexp.MustCompile(`^(iso|iso-strict|short|relative|rfc|unix|human|default|local)$`)}),
)

var gitGrammars = map[string]grammar{
	"status": {path: relative, operand: relative, flags: flags(
		each("--short -s -sb --branch -b --show-stash --long --ahead-behind --no-renames -z --ignored -uno -unormal -uall", flag{}),
		each("--porcelain", flag{optional, regexp.MustCompile(`^(v1|1)$`)}),
		each("--untracked-files", flag{optional, regexp.MustCompile(`^(no|normal|all)$`)}),
	)},
	"diff": {path: relative, operand: revision, flags: flags(gitShape,
		each("--staged --cached --merge-base --check --exit-code --quiet -R", flag{}))},
	"log":  {path: relative, operand: revision, flags: gitHistory},
	"show": {path: relative, operand: revision, flags: gitHistory},
	"ls-files": {path: relative, operand: relative, flags: flags(
		each("-c --cached -o --others -m --modified -d --deleted --exclude-standard -z -t --full-name --directory", flag{}))},
	"blame": {path: relative, operand: nil, flags: flags(
		each("-w -M -s -t -f -e --root --porcelain --line-porcelain", flag{}),
		each("-L", flag{value, lineRange}),
		each("--date", flag{joined, regexp.MustCompile(`^(iso|short|relative|unix)$`)}),
	)},
	"add":     {path: relative, operand: relative, flags: flags(each("-A --all -u --update -n --dry-run -v --verbose", flag{}))},
	"restore": {path: relative, operand: relative, flags: flags(each("--staged -S -q", flag{}))},
	"commit": {path: relative, flags: flags(
		each("-a --all --allow-empty -q --quiet --dry-run -v", flag{}),
		each("-m --message", flag{value, anyText}),
	)},
}

// revision says why a revision, range or REV:path is refused.
func revision(s string) string {
	for part := range strings.SplitSeq(strings.ReplaceAll(s, "...", ".."), "..") {
		rev, path, has := strings.Cut(part, ":")
		if rev != "" || has {
			if rev != "@" && !gitRev.MatchString(rev) {
				return "not a revision; put paths behind --"
			}
		}
		if has {
			if part != s {
				return "a range of paths is not allowed"
			}
			if path == "" {
				return "no path behind the colon"
			}
			if why := relative(path); why != "" {
				return why
			}
		}
	}
	return ""
}

// peel makes sure that every end of a range is a commit.
func peel(s string) string {
	for _, dots := range []string{"...", ".."} {
		if a, b, ok := strings.Cut(s, dots); ok {
			if a != "" {
				a += "^{commit}"
			}
			if b != "" {
				b += "^{commit}"
			}
			return a + dots + b
		}
	}
	rev, path, ok := strings.Cut(s, ":")
	if ok {
		return rev + "^{commit}:" + path
	}
	return rev + "^{commit}"
}

// gitReadPlan plans the verbs that only look.
func gitReadPlan(args []string) (invocation, string) {
	verb := args[0]
	p, why := gitGrammars[verb].parse(args[1:])
	if why != "" {
		return invocation{}, why
	}
	inv := invocation{git: gitRead}
	out := []string{verb}
	switch verb {
	case "status":
		out = append(out, "--ignore-submodules=all")
		inv.specs = true
	case "diff", "show", "log":
		out = append(out, "--no-ext-diff", "--no-textconv", "--ignore-submodules=all")
		if p.has("--format", "--pretty") && gitSigned.MatchString(strings.Join(p.flags, " ")) {
			return invocation{}, "%G placeholders run a signature program"
		}
		if path, why := fileAt(verb, p); why != "" {
			return invocation{}, why
		} else if path != "" {
			inv.top = []string{path}
			inv.args = []string{"cat-file", "blob", peel(p.operands[0])}
			return inv, ""
		}
		for i, o := range p.operands {
			p.operands[i] = peel(o)
		}
		inv.specs = verb != "log" || showsPaths(p)
		if verb == "log" && inv.specs && len(p.paths) == 0 {
			// The pathspecs that leave denied files out must not leave commits out.
			out = append(out, "--full-history", "--sparse")
		}
	case "ls-files":
		inv.specs = true
	case "blame":
		if len(p.paths) != 1 {
			return invocation{}, "want: git blame [-L FROM,TO] -- PATH"
		}
		out = append(out, "--no-textconv")
	}
	if verb == "status" || verb == "ls-files" {
		p.paths = append(p.operands, p.paths...)
		p.operands = nil
	}
	inv.args = join(out, p.flags, p.operands, []string{"--"}, p.paths)
	inv.paths = p.paths
	return inv, ""
}

// fileAt reports the path of "git show REV:path".
func fileAt(verb string, p parsed) (path, why string) {
	for _, o := range p.operands {
		_, path, ok := strings.Cut(o, ":")
		if !ok {
			continue
		}
		if verb != "show" || len(p.operands) != 1 || len(p.flags) != 0 || len(p.paths) != 0 {
			return "", "REV:path stands alone: git show REV:path"
		}
		return path, ""
	}
	return "", ""
}

// showsPaths reports whether git log prints names or content of files.
func showsPaths(p parsed) bool {
	if len(p.paths) > 0 {
		return true
	}
	for _, f := range p.flags {
		name, _, _ := strings.Cut(f, "=")
		if _, ok := gitShape[name]; ok || strings.HasPrefix(f, "-U") || name == "--follow" {
			return true
		}
	}
	return false
}

// gitCommitPlan plans the verbs that record.
func gitCommitPlan(args []string) (invocation, string) {
	verb := args[0]
	p, why := gitGrammars[verb].parse(args[1:])
	if why != "" {
		return invocation{}, why
	}
	paths := append(p.operands, p.paths...)
	out := []string{verb}
	inv := invocation{git: gitWrite, paths: paths}
	switch verb {
	case "add":
		inv.specs = true
		if len(paths) == 0 && !p.has("-A", "--all", "-u", "--update") {
			return invocation{}, "want paths, -A or -u"
		}
	case "restore":
		if !p.has("--staged", "-S") || len(paths) == 0 {
			return invocation{}, "only git restore --staged PATHS is allowed, since restore overwrites files"
		}
	case "commit":
		if !p.has("-m", "--message") {
			return invocation{}, "want -m MESSAGE"
		}
		out = append(out, "--no-verify", "--no-gpg-sign", "--cleanup=strip")
	}
	inv.args = join(out, p.flags, []string{"--"}, paths)
	return inv, ""
}
