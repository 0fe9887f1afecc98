package command

import (
	"regexp"
	"strings"
)

// The grammars of the profiles that run repository code. Their flags keep a
// command what its profile says; they are no defence against the code itself,
// the sandbox is.

var goCommon = flags(
	each("-v -x -race -msan -asan -trimpath -a -n", flag{}),
	each("-p", flag{value, number}),
	each("-tags", flag{value, plain}),
	each("-mod", flag{value, regexp.MustCompile(`^(readonly|vendor)$`)}),
)

var goTestGrammar = grammar{goStyle: true, operand: goPackage, flags: flags(goCommon,
	each("-short -cover -benchmem -failfast -json -fullpath", flag{}),
	each("-run -skip -bench -list -fuzz", flag{value, anyText}),
	each("-count -parallel", flag{value, number}),
	each("-cpu", flag{value, regexp.MustCompile(`^[0-9,]{1,50}$`)}),
	each("-timeout -benchtime -fuzztime", flag{value, duration}),
	each("-covermode", flag{value, regexp.MustCompile(`^(set|count|atomic)$`)}),
	each("-coverpkg", flag{value, plain}),
	each("-shuffle", flag{value, regexp.MustCompile(`^(on|off|[0-9]{1,20})$`)}),
	each("-vet", flag{value, regexp.MustCompile(`^[a-z,]{1,200}$`)}),
)}

var goBuildGrammar = grammar{goStyle: true, operand: goPackage, flags: flags(goCommon,
	each("-o", flag{value, regexp.MustCompile(`^/dev/null$`)}),
)}

var goVetGrammar = grammar{goStyle: true, operand: goPackage, flags: flags(goCommon,
	each("-json -composites -copylocks -printf -shadow -unusedresult -structtag -tests -unreachable -nilfunc -atomic -bools", flag{}),
	each("-c", flag{value, number}),
)}

var goPackageName = regexp.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_.~/+-]{0,300}$`)

func goPackage(s string) string {
	if !goPackageName.MatchString(s) {
		return "want a package such as ./... or example.com/mod/pkg"
	}
	return relative(s)
}

func goTest(args []string) (invocation, string)  { return goVerb("test", goTestGrammar, args) }
func goBuild(args []string) (invocation, string) { return goVerb("build", goBuildGrammar, args) }
func goVet(args []string) (invocation, string)   { return goVerb("vet", goVetGrammar, args) }

func goVerb(verb string, g grammar, args []string) (invocation, string) {
	p, why := g.parse(args)
	if why != "" {
		return invocation{}, why
	}
	if p.dashes {
		return invocation{}, "-- is not allowed"
	}
	return invocation{args: join([]string{verb}, p.flags, p.operands)}, ""
}

// testArg is a word for the test runner behind "--": a file, a filter or a
// long flag without a path of its own.
var testArg = regexp.MustCompile(`^[A-Za-z0-9_.@=:,+*/ \[\]()|^$-]{1,300}$`)

func runnerArg(s string) string {
	if !testArg.MatchString(s) || strings.HasPrefix(s, "/") || strings.Contains(s, "..") {
		return "not a plain word or relative path"
	}
	return ""
}

var npmGrammar = grammar{path: runnerArg, flags: flags(
	each("--silent -s --workspaces -ws --if-present --include-workspace-root", flag{}),
	each("--workspace -w", flag{value, word}),
)}

func npmTest(args []string) (invocation, string) {
	p, why := npmGrammar.parse(args)
	if why != "" {
		return invocation{}, why
	}
	out := join([]string{"test"}, p.flags)
	if p.dashes {
		out = join(out, []string{"--"}, p.paths)
	}
	return invocation{args: out}, ""
}

var pytestGrammar = grammar{operand: relative, flags: flags(
	each("-x -q -qq -v -vv -vvv -s -l --exitfirst --quiet --verbose --showlocals --collect-only --co --no-header --no-summary --strict-markers", flag{}),
	each("-k -m", flag{value, regexp.MustCompile(`^[A-Za-z0-9_.\[\]() :<>=,+*/-]{1,500}$`)}),
	each("--maxfail --durations", flag{joined, number}),
	each("--tb", flag{joined, regexp.MustCompile(`^(auto|long|short|line|native|no)$`)}),
	each("-r", flag{glued, regexp.MustCompile(`^[A-Za-z]{1,12}$`)}),
	each("--color", flag{joined, regexp.MustCompile(`^(yes|no|auto)$`)}),
	each("--deselect --ignore", flag{joined, plain}),
)}

func pytest(args []string) (invocation, string) {
	p, why := pytestGrammar.parse(args)
	if why != "" {
		return invocation{}, why
	}
	if p.dashes {
		return invocation{}, "-- is not allowed"
	}
	return invocation{args: join([]string{"-m", "pytest", "-p", "no:cacheprovider"}, p.flags, p.operands)}, ""
}

var cargoGrammar = grammar{flags: flags(
	each("--release --lib --bins --examples --tests --benches --doc --all-targets --workspace --all --all-features --no-default-features --no-fail-fast --no-run -q --quiet -v --verbose --locked", flag{}),
	each("-p --package --test --bin --example --bench --features -F --exclude --profile", flag{value, word}),
	each("-j", flag{glued, number}),
), operand: func(s string) string {
	if !word.MatchString(s) {
		return "want the name of a test"
	}
	return ""
}, path: runnerArg}

func cargoTest(args []string) (invocation, string) {
	p, why := cargoGrammar.parse(args)
	if why != "" {
		return invocation{}, why
	}
	out := join([]string{"test", "--offline"}, p.flags, p.operands)
	if p.dashes {
		out = join(out, []string{"--"}, p.paths)
	}
	return invocation{args: out}, ""
}

var makeGrammar = grammar{flags: flags(
	each("-k --keep-going -n --dry-run --just-print -s --silent --quiet -B --always-make --no-print-directory -O", flag{}),
	each("-j", flag{glued, number}),
), operand: func(s string) string {
	if !makeTarget.MatchString(s) {
		return "want the name of a target; variables can't be set"
	}
	return relative(s)
}}

var makeTarget = regexp.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_./@%+-]{0,200}$`)

func makeTargets(args []string) (invocation, string) {
	p, why := makeGrammar.parse(args)
	if why != "" {
		return invocation{}, why
	}
	if p.dashes {
		return invocation{}, "-- is not allowed"
	}
	return invocation{args: join(p.flags, p.operands)}, ""
}

func join(parts ...[]string) []string {
	var out []string
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}
