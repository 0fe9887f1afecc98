package command

import (
	"fmt"
	"regexp"
	"strings"
)

// takes says whether and how a flag takes a value.
type takes uint8

const (
	alone    takes = iota // --flag
	joined                // --flag=value only
	optional              // --flag or --flag=value
	value                 // --flag=value or --flag value
	glued                 // -nvalue or -n value
)

// flag is one flag of a grammar.
type flag struct {
	takes takes
	ok    *regexp.Regexp // nil: any text that doesn't begin with a dash
}

// grammar lists the arguments a command may have: what isn't listed is
// refused (case 51: allowed flags, not forbidden ones).
type grammar struct {
	flags map[string]flag
	// goStyle also reads --flag as -flag and gives switches a =true.
	goStyle bool
	// operand and path say why a word is refused, "" if it is fine; nil means
	// there are none. path is for the words behind "--".
	operand, path func(string) string
}

// parsed is an argv by kind, flags in order and in one word each where they
// have a value joined.
type parsed struct {
	flags, operands, paths []string
	dashes                 bool // a "--" was there
}

// has reports whether one of the flags was given.
func (p parsed) has(names ...string) bool {
	for _, f := range p.flags {
		name, _, _ := strings.Cut(f, "=")
		for _, n := range names {
			if name == n {
				return true
			}
		}
	}
	return false
}

// parse checks args; why is not empty if they are refused.
func (g grammar) parse(args []string) (p parsed, why string) {
	for i := 0; i < len(args); i++ {
		w := args[i]
		switch {
		case p.dashes:
			if g.path == nil {
				return p, fmt.Sprintf("%q is not allowed behind --", w)
			}
			if why := g.path(w); why != "" {
				return p, fmt.Sprintf("%q: %s", w, why)
			}
			p.paths = append(p.paths, w)
		case w == "--":
			p.dashes = true
		case strings.HasPrefix(w, "-") && w != "-":
			words, used, why := g.readFlag(w, args[i+1:])
			if why != "" {
				return p, why
			}
			p.flags = append(p.flags, words...)
			i += used
		default:
			if g.operand == nil {
				return p, fmt.Sprintf("%q is not allowed", w)
			}
			if why := g.operand(w); why != "" {
				return p, fmt.Sprintf("%q: %s", w, why)
			}
			p.operands = append(p.operands, w)
		}
	}
	return p, ""
}

// readFlag reads one flag and, if it needs one, its value from the words that
// follow. used is how many of those it took.
func (g grammar) readFlag(w string, following []string) (words []string, used int, why string) {
	name, val, has := strings.Cut(w, "=")
	if g.goStyle && strings.HasPrefix(name, "--") {
		name = name[1:]
	}
	f, ok := g.flags[name]
	if !ok && !has && len(w) > 2 && w[1] != '-' { // -U3
		if f, ok = g.flags[w[:2]]; ok && f.takes == glued {
			name, val, has = w[:2], w[2:], true
		} else {
			ok = false
		}
	}
	if !ok {
		return nil, 0, fmt.Sprintf("the flag %s is not allowed", name)
	}
	switch f.takes {
	case alone:
		if has && (!g.goStyle || (val != "true" && val != "false")) {
			return nil, 0, fmt.Sprintf("%s takes no value", name)
		}
		if has {
			name += "=" + val
		}
		return []string{name}, 0, ""
	case optional:
		if !has {
			return []string{name}, 0, ""
		}
	case joined:
		if !has {
			return nil, 0, fmt.Sprintf("%s needs a value: %s=VALUE", name, name)
		}
	case value, glued:
		if !has {
			if len(following) == 0 {
				return nil, 0, fmt.Sprintf("%s needs a value", name)
			}
			val, used = following[0], 1
		}
	}
	if f.ok != nil && !f.ok.MatchString(val) || f.ok == nil && strings.HasPrefix(val, "-") {
		return nil, 0, fmt.Sprintf("%s: the value %q is not allowed", name, val)
	}
	switch {
	case f.takes == glued:
		return []string{name + val}, used, ""
	case len(name) == 2 && !g.goStyle: // -m MESSAGE
		return []string{name, val}, used, ""
	}
	return []string{name + "=" + val}, used, ""
}

// flags builds a grammar's table from lists of names by kind.
func flags(kinds ...map[string]flag) map[string]flag {
	out := map[string]flag{}
	for _, k := range kinds {
		for n, f := range k {
			out[n] = f
		}
	}
	return out
}

// each gives every name of a blank-separated list the same flag.
func each(names string, f flag) map[string]flag {
	out := map[string]flag{}
	for n := range strings.FieldsSeq(names) {
		out[n] = f
	}
	return out
}

var (
	number   = regexp.MustCompile(`^[0-9]{1,9}$`)
	plain    = regexp.MustCompile(`^[A-Za-z0-9_.,:+/@-]{1,200}$`)
	word     = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.,:+/@-]{0,199}$`)
	duration = regexp.MustCompile(`^[0-9]{1,9}(ns|us|ms|s|m|h|x)?([0-9]{1,9}(ms|s|m))*$`)
	anyText  = regexp.MustCompile(`(?s)^.*$`)
)

// relative says why a path argument is refused.
func relative(p string) string {
	switch {
	case p == "":
		return "empty path"
	case strings.HasPrefix(p, "-"):
		return "begins with a dash"
	case strings.HasPrefix(p, "/") || strings.HasPrefix(p, "~"):
		return "absolute paths don't exist here; write it relative to cwd"
	case strings.HasPrefix(p, ":"):
		return "pathspec magic is not allowed"
	case strings.ContainsAny(p, "\\\n\r"):
		return "backslash or line break in a path"
	}
	for c := range strings.SplitSeq(p, "/") {
		if c == ".." {
			return "\"..\" is not allowed; set cwd instead"
		}
	}
	return ""
}
