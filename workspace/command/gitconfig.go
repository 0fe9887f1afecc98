package command

import (
	"regexp"
	"strings"
)

// inertKeys are the keys of a repository's configuration that can't make a git
// command execute or read anything else. Whatever isn't listed makes the git
// profiles refuse the repository (tinyhumansai/openhuman#5493): a list of bad
// keys would be one git release behind.
var inertKeys = regexp.MustCompile(`^(` + strings.Join([]string{
	`core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol|safecrlf|abbrev|quotepath|compression|loosecompression|bigfilethreshold|packedgitlimit|packedgitwindowsize|deltabasecachelimit|sharedrepository|trustctime|checkstat|preloadindex|untrackedcache|splitindex|commentchar|whitespace|longpaths|protecthfs|protectntfs|multipackindex|commitgraph|hookspath|excludesfile|fscache|warnambiguousrefs|prefersymlinkrefs|createobject)`,
	`extensions\.(objectformat|refstorage|noop|partialclone|preciousobjects)`,
	`(user|author|committer)\.(name|email|useconfigonly|signingkey)`,
	`remote\.[^\n]*\.(url|pushurl|fetch|push|tagopt|prune|prunetags|mirror|promisor|partialclonefilter|skipdefaultupdate|skipfetchall|gh-resolved)`,
	`remote\.pushdefault`,
	`branch\.[^\n]*\.(remote|pushremote|merge|rebase|description|vscode-merge-base|gh-merge-base|github-pr-owner-number|mergeoptions)`,
	`branch\.(autosetupmerge|autosetuprebase|sort)`,
	`submodule\.[^\n]*\.(url|active|branch|ignore|fetchrecursesubmodules|path|shallow)`,
	`submodule\.(active|recurse|fetchjobs)`,
	`init\.defaultbranch`, `pull\.(rebase|ff|octopus|twohead)`, `push\.(default|autosetupremote|followtags)`,
	`fetch\.(prune|prunetags|parallel|writecommitgraph|recursesubmodules)`,
	`merge\.(conflictstyle|ff|log|renames|renamelimit|stat|branchdesc)`,
	`diff\.(algorithm|renames|renamelimit|context|interhunkcontext|mnemonicprefix|noprefix|colormoved|statgraphwidth|ignoresubmodules|submodule|indentheuristic|suppressblankempty)`,
	`log\.(date|decorate|follow|abbrevcommit|mailmap|showroot)`, `blame\.(date|showroot|blankboundary|coloring)`,
	`status\.(short|branch|showuntrackedfiles|relativepaths|aheadbehind|renames|showstash)`,
	`commit\.(gpgsign|status|verbose|cleanup)`, `tag\.(gpgsign|sort)`, `rebase\.(autosquash|autostash|updaterefs|stat)`,
	`rerere\.(enabled|autoupdate)`, `gc\.(auto|autodetach|autopacklimit|logexpiry|packrefs|pruneexpire|reflogexpire|reflogexpireunreachable|worktreepruneexpire)`, `pack\.(threads|windowmemory|depth|window|packsizelimit|usesparse|writereverseindex)`,
	`index\.(threads|version|skiphash)`, `feature\.(manyfiles|experimental)`, `maintenance\.[^\n]*`,
	`color\.[^\n]*`, `column\.[a-z]*`, `advice\.[a-z]*`, `i18n\.[a-z]*`, `gui\.(geometry|wmstate)`, `transfer\.fsckobjects`, `receive\.denycurrentbranch`,
	`lfs\.(repositoryformatversion|url|locksverify|[^\n]*\.locksverify|[^\n]*\.access)`,
	`gitflow\.[^\n]*`, `github\.[^\n]*`, `svn-remote\.[^\n]*\.(url|fetch)`, `notes\.(displayref|rewriteref)`,
}, "|") + `)$`)

// maxGitConfig bounds a repository's configuration that we look at.
const maxGitConfig = 256 << 10

// refusedKey returns the first key of "git config --list -z" that isn't inert,
// "" if all are. core.fsmonitor is inert as a switch only; gitEnv turns it off.
func refusedKey(list string) string {
	for entry := range strings.SplitSeq(list, "\x00") {
		if entry == "" {
			continue
		}
		key, val, _ := strings.Cut(entry, "\n")
		key = strings.ToLower(key)
		switch {
		case key == "core.fsmonitor" && (val == "" || val == "true" || val == "false"):
		case !inertKeys.MatchString(key):
			return key
		}
	}
	return ""
}

// configured returns the values of a key in such a list.
func configured(list, key string) []string {
	var out []string
	for entry := range strings.SplitSeq(list, "\x00") {
		if k, v, _ := strings.Cut(entry, "\n"); strings.EqualFold(k, key) {
			out = append(out, v)
		}
	}
	return out
}
