package command

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weftmesh/weft/workspace"
)

// Limits of an argv. They are far above what tests need and far below what
// execve takes, so that a refusal always comes from here.
const (
	maxArgs     = 256
	maxArg      = 4 << 10
	maxArgBytes = 64 << 10
)

// Allowed is one granted entry: a profile by its name, or one exact argv.
// Exactly one of the two is set.
type Allowed struct {
	Profile string   `json:"profile,omitzero"`
	Argv    []string `json:"argv,omitzero"`
}

// String is the entry as ParseAllowed reads it.
func (a Allowed) String() string {
	if a.Profile != "" {
		return a.Profile
	}
	words := make([]string, len(a.Argv))
	for i, w := range a.Argv {
		words[i] = quote(w)
	}
	if len(words) == 1 && words[0] == a.Argv[0] {
		return "'" + words[0] + "'"
	}
	return strings.Join(words, " ")
}

// ParseAllowed reads what a requester grants: the name of a profile, or an
// exact argv. An argv is written as in a shell, with quotes and backslashes
// and without anything a shell would expand; a one-word argv is written in
// quotes, so that a misspelt profile is an error and not a command.
func ParseAllowed(s string) (Allowed, error) {
	if _, ok := Lookup(s); ok {
		return Allowed{Profile: s}, nil
	}
	argv, quoted, err := split(s)
	if err != nil {
		return Allowed{}, fmt.Errorf("granted command %q: %w", s, err)
	}
	if len(argv) == 1 && !quoted {
		return Allowed{}, fmt.Errorf("no profile %q; try: weft profiles, or quote it inside for an exact argv: \"'%s'\"", s, s)
	}
	if why := badArgv(argv); why != "" {
		return Allowed{}, fmt.Errorf("granted command %q: %s", s, why)
	}
	return Allowed{Argv: argv}, nil
}

// Plan is a command that the grant allows, ready to run.
type Plan struct {
	// Profile is the profile's name, "" for an exact argv.
	Profile string
	// Argv is what was asked for, word by word.
	Argv []string
	// RunsRepoCode is the profile's; true for an exact argv.
	RunsRepoCode bool

	tool     string // name of the program among the pins
	readOnly bool
	env      []string
	invocation
}

// Match finds the granted entry that allows argv. It is a pure function. The
// refusal lists what is granted.
func Match(allowed []Allowed, argv []string) (Plan, *workspace.Refusal) {
	if why := badArgv(argv); why != "" {
		return Plan{}, workspace.Refuse(workspace.BadArguments, "%s", why)
	}
	for _, a := range allowed {
		if len(a.Argv) > 0 && slices.Equal(a.Argv, argv) {
			return exactPlan(argv), nil
		}
	}
	why := ""
	for _, a := range allowed {
		p, ok := Lookup(a.Profile)
		if !ok {
			continue
		}
		rest, ok := p.claims(argv)
		if !ok {
			continue
		}
		inv, refused := p.build(rest)
		if refused != "" {
			why = fmt.Sprintf("%s: %s; usage: %s", p.Name, refused, p.Usage)
			continue
		}
		return Plan{Profile: p.Name, Argv: slices.Clone(argv), RunsRepoCode: p.RunsRepoCode,
			tool: p.Tool, readOnly: p.ReadOnly, env: p.env, invocation: inv}, nil
	}
	if why == "" {
		why = granted(allowed)
		if len(argv) == 1 && strings.ContainsAny(argv[0], " |&;$`") {
			why = "argv is a list of words, never a shell string; " + why
		}
	}
	return Plan{}, workspace.Refuse(workspace.CommandNotGranted, "%s", why)
}

// claims reports whether argv begins as the profile's commands do, and returns
// the words behind argv[0] that build takes.
func (p Profile) claims(argv []string) ([]string, bool) {
	for _, lead := range p.lead {
		if len(argv) >= len(lead) && slices.Equal(argv[:len(lead)], lead) {
			if p.Tool == "git" { // the verb decides the grammar
				return argv[1:], true
			}
			return argv[len(lead):], true
		}
	}
	return nil, false
}

// granted lists the entries for a refusal's hint.
func granted(allowed []Allowed) string {
	if len(allowed) == 0 {
		return "no command is granted in this session"
	}
	var list []string
	for _, a := range allowed {
		if p, ok := Lookup(a.Profile); ok {
			list = append(list, p.Name+" ("+p.Usage+")")
		} else {
			list = append(list, "exactly: "+strings.Join(a.Argv, " "))
		}
	}
	return "granted are " + strings.Join(list, "; ")
}

// exactPlan runs an argv as granted. A tool that a profile knows keeps that
// tool's environment; git keeps its neutralising settings.
func exactPlan(argv []string) Plan {
	p := Plan{Argv: slices.Clone(argv), RunsRepoCode: true, tool: argv[0], env: goEnv}
	p.args = slices.Clone(argv[1:])
	if argv[0] == "git" {
		p.git = gitWrite
	}
	return p
}

// badArgv says why argv can't be run at all, "" if it can.
func badArgv(argv []string) string {
	if len(argv) == 0 || argv[0] == "" {
		return "argv is empty; give the program and its arguments as a list of words"
	}
	if len(argv) > maxArgs {
		return fmt.Sprintf("%d arguments, the limit is %d", len(argv), maxArgs)
	}
	total := 0
	for _, w := range argv {
		total += len(w)
		switch {
		case len(w) > maxArg:
			return fmt.Sprintf("an argument of %d bytes, the limit is %d", len(w), maxArg)
		case !utf8.ValidString(w):
			return "an argument is not UTF-8"
		case strings.ContainsRune(w, 0):
			return "an argument holds a NUL byte"
		}
	}
	if total > maxArgBytes {
		return fmt.Sprintf("%d bytes of arguments, the limit is %d", total, maxArgBytes)
	}
	return ""
}
