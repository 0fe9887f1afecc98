package command

import "github.com/weftmesh/weft/workspace"

// Profile is a named, reviewed way to use one tool: which arguments it takes,
// what is switched off around it, and whether it runs code of the repository.
type Profile struct {
	// Name is what a grant says, such as "go-test".
	Name string
	// Summary is one line for the requester who decides.
	Summary string
	// Usage shows what may be asked for; it is part of refusals and of
	// workspace_info.
	Usage string
	// Tool is the program that the requester's machine must have.
	Tool string
	// RunsRepoCode says that files in the granted folders decide what is
	// executed. Such a profile is code execution by design, inside the sandbox.
	RunsRepoCode bool
	// NeedsNet says that the profile is of little use without a network.
	NeedsNet bool
	// ReadOnly says that every root is mounted read-only for it.
	ReadOnly bool
	// Neutralised lists what is switched off or forced, for the requester.
	Neutralised []string

	// env names the variables a caller may set beside commonEnv.
	env []string
	// build checks the arguments behind argv[0] and makes the plan.
	build func(args []string) (invocation, string)
	// lead is how argv begins.
	lead [][]string
}

// invocation is what a Plan runs.
type invocation struct {
	// args follow the tool's own name.
	args []string
	// paths are those arguments that name files, relative to the working
	// directory; top are those relative to the root. Both are checked against
	// the denylist when the plan runs.
	paths, top []string
	// git says how the repository's directory is mounted.
	git gitUse
	// specs asks the runner to append pathspecs that leave out denied files.
	specs bool
}

// gitUse is what a command needs of a repository's own directory.
type gitUse uint8

const (
	gitGuarded gitUse = iota // .git read-only; not a git command
	gitRead                  // a git command that only reads
	gitWrite                 // a git command that records: .git writable except what can execute
)

var gitNeutralised = []string{
	"hooks, fsmonitor, external diff, textconv, pager, editor, signing, submodule recursion and remote protocols are off",
	"system and global git configuration is not read",
	"refused when the repository's own configuration holds a key outside a list of inert ones",
	"the repository is named explicitly, so embedded repositories and gitfiles are never discovered",
	"files on the denylist are left out of every listing, diff and history",
}

var sandboxedCode = []string{
	"no network, no user or host name, an environment built from nothing",
	".git read-only, denied files masked, toolchains read-only, private /tmp and cache",
}

// profiles is the table in the order in which it is shown.
var profiles = []Profile{
	{Name: "go-test", Tool: "go", Summary: "Go tests of packages in the folder", RunsRepoCode: true,
		Usage: "go test [-run R] [-v] [-race] [-count N] [-short] ... [packages]",
		lead:  [][]string{{"go", "test"}}, build: goTest, env: goEnv, Neutralised: append([]string{"no -exec, -toolexec, -o or profile files; GOPROXY=off, GOTOOLCHAIN=local"}, sandboxedCode...)},
	{Name: "go-build", Tool: "go", Summary: "compile Go packages", RunsRepoCode: true,
		Usage: "go build [-v] [-race] [-tags T] [-o /dev/null] [packages]",
		lead:  [][]string{{"go", "build"}}, build: goBuild, env: goEnv, Neutralised: append([]string{"no -toolexec, -overlay, -ldflags; GOPROXY=off, GOTOOLCHAIN=local"}, sandboxedCode...)},
	{Name: "go-vet", Tool: "go", Summary: "go vet of packages in the folder", RunsRepoCode: true,
		Usage: "go vet [-json] [-tags T] [packages]",
		lead:  [][]string{{"go", "vet"}}, build: goVet, env: goEnv, Neutralised: append([]string{"no -vettool, -toolexec; GOPROXY=off, GOTOOLCHAIN=local"}, sandboxedCode...)},
	{Name: "npm-test", Tool: "npm", Summary: "the package's own npm test script", RunsRepoCode: true,
		Usage: "npm test [--silent] [--workspaces] [-- ARGS]",
		lead:  [][]string{{"npm", "test"}, {"npm", "run", "test"}}, build: npmTest, env: []string{"NODE_ENV"}, Neutralised: append([]string{"offline; no user .npmrc, update notifier, audit or funding call"}, sandboxedCode...)},
	{Name: "pytest", Tool: "python3", Summary: "Python tests with pytest", RunsRepoCode: true,
		Usage: "pytest [-k EXPR] [-m MARK] [-x] [-q] [-v] [--maxfail=N] [--tb=STYLE] [paths]",
		lead:  [][]string{{"pytest"}, {"python3", "-m", "pytest"}, {"python", "-m", "pytest"}}, build: pytest, env: []string{"PYTHONHASHSEED"}, Neutralised: append([]string{"the requester's own interpreter, never one inside the folder; no -p, -c or -o; no cache files"}, sandboxedCode...)},
	{Name: "cargo-test", Tool: "cargo", Summary: "Rust tests with cargo", RunsRepoCode: true,
		Usage: "cargo test [--release] [--lib] [--workspace] [-p NAME] [--test NAME] [FILTER] [-- --nocapture]",
		lead:  [][]string{{"cargo", "test"}}, build: cargoTest, env: []string{"RUST_BACKTRACE", "RUST_TEST_THREADS"}, Neutralised: append([]string{"offline; target directory in the session's cache; no --config, no +toolchain"}, sandboxedCode...)},
	{Name: "make", Tool: "make", Summary: "targets of the folder's Makefile", RunsRepoCode: true,
		Usage: "make [-k] [-n] [-s] [-j N] [targets]",
		lead:  [][]string{{"make"}}, build: makeTargets, Neutralised: append([]string{"no variable assignments, -f, -C, -I or --eval"}, sandboxedCode...)},
	{Name: "git-read", Tool: "git", Summary: "look at the repository: status, diff, log, show, ls-files, blame", ReadOnly: true,
		Usage: "git status|diff|log|show|ls-files|blame [listed flags] [revisions] [-- paths]",
		lead:  gitLead(gitReadVerbs), build: gitReadPlan, Neutralised: gitNeutralised},
	{Name: "git-commit", Tool: "git", Summary: "record changes: git add, restore --staged, commit -m",
		Usage: "git add [-A|-u] [paths] | git restore --staged paths | git commit -m MESSAGE [-a] [--allow-empty] [-- paths]",
		lead:  gitLead(gitWriteVerbs), build: gitCommitPlan, Neutralised: gitNeutralised},
}

// commonEnv lists the variables that a caller may set for any command. None
// names a program, a file or an option of a tool (case 53).
var commonEnv = []string{"CI", "NO_COLOR", "FORCE_COLOR", "TZ", "LANG", "LC_ALL", "COLUMNS"}

var goEnv = []string{"CGO_ENABLED", "GOOS", "GOARCH", "GOMAXPROCS", "GOTRACEBACK"}

// Profiles lists every profile in the order in which they are shown.
func Profiles() []Profile { return append([]Profile{}, profiles...) }

// Lookup finds a profile by its name.
func Lookup(name string) (Profile, bool) {
	for _, p := range profiles {
		if p.Name == name {
			return p, true
		}
	}
	return Profile{}, false
}

// Effect is the right a command of the profile needs: Exec, and Write too if
// its purpose is to record something.
func (p Profile) Effect() workspace.Right {
	if p.Name == "git-commit" {
		return workspace.Exec | workspace.Write
	}
	return workspace.Exec
}
