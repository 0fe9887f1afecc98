package workspace

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Path is a checked name in a session's one namespace: the name of a granted
// root and a slash-separated path below it. Only ParsePath makes one, so a
// function that takes a Path needs no second look at its text.
type Path struct{ root, rel string }

// Limits of a path, those of Linux (PATH_MAX, NAME_MAX).
const (
	maxPath      = 4096
	maxComponent = 255
)

// ParsePath reads "<root>/<relative/posix/path>" or "<root>" for the root
// itself. Nothing is normalised: whatever could be read in two ways is
// refused with BadPath and a hint.
func ParsePath(s string) (Path, *Refusal) {
	const shape = "paths look like app/src/main.go: a granted root's name, then the path below it; workspace_info lists the roots"
	switch {
	case s == "":
		return Path{}, Refuse(BadPath, "empty path; %s", shape)
	case len(s) > maxPath:
		return Path{}, Refuse(BadPath, "path of %d bytes, the limit is %d", len(s), maxPath)
	case !utf8.ValidString(s):
		return Path{}, Refuse(BadPath, "path is not UTF-8")
	case s[0] == '/' || s[0] == '~':
		return Path{}, Refuse(BadPath, "absolute and home paths don't exist here; %s", shape)
	case strings.ContainsAny(s, `\:`):
		return Path{}, Refuse(BadPath, "backslashes, drive letters and streams are not allowed; %s", shape)
	}
	for _, r := range s {
		if r < 0x20 || r == 0x7f || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) || unicode.IsControl(r) {
			return Path{}, Refuse(BadPath, "control or invisible character in the path")
		}
	}
	root, rel, _ := strings.Cut(s, "/")
	for i, c := range strings.Split(s, "/") {
		switch {
		case c == "" && i > 0 && i == strings.Count(s, "/"):
			return Path{}, Refuse(BadPath, "trailing slash; leave it out")
		case c == "":
			return Path{}, Refuse(BadPath, "empty component; write each slash once")
		case c == "." || c == "..":
			return Path{}, Refuse(BadPath, "%q is not allowed; %s", c, shape)
		case len(c) > maxComponent:
			return Path{}, Refuse(BadPath, "component of %d bytes, the limit is %d", len(c), maxComponent)
		case strings.HasSuffix(c, ".") || strings.HasSuffix(c, " "):
			return Path{}, Refuse(BadPath, "a component ends in a dot or space")
		case isDevice(c):
			return Path{}, Refuse(BadPath, "%q names a device on Windows", c)
		case isShortName(c):
			return Path{}, Refuse(BadPath, "%q looks like a short alias of another name; write the name itself", c)
		}
	}
	return Path{root: root, rel: rel}, nil
}

// Root is the granted root's name.
func (p Path) Root() string { return p.root }

// Rel is the path below the root, "" for the root itself.
func (p Path) Rel() string { return p.rel }

// IsRoot reports whether p names a root itself.
func (p Path) IsRoot() bool { return p.rel == "" }

// Base is the last component.
func (p Path) Base() string {
	s := p.String()
	return s[strings.LastIndexByte(s, '/')+1:]
}

// Join adds checked components below p.
func (p Path) Join(rel string) (Path, *Refusal) { return ParsePath(p.String() + "/" + rel) }

// String is the path as the provider writes it.
func (p Path) String() string {
	if p.rel == "" {
		return p.root
	}
	return p.root + "/" + p.rel
}

// isDevice reports whether Windows takes a component for a device, in any
// folder and with any extension ("nul.txt"). The rule is the same everywhere,
// so that a session doesn't depend on the requester's system.
func isDevice(c string) bool {
	stem, _, _ := strings.Cut(c, ".")
	stem = strings.ToLower(strings.TrimRight(stem, " "))
	switch stem {
	case "con", "prn", "aux", "nul", "conin$", "conout$":
		return true
	}
	port, ok := strings.CutPrefix(stem, "com")
	if !ok {
		port, ok = strings.CutPrefix(stem, "lpt")
	}
	switch port {
	case "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "\u00b9", "\u00b2", "\u00b3":
		return ok
	}
	return false
}

// isShortName reports whether a component has the form of a generated 8.3
// alias ("PROGRA~1", "ENV~1.LOC"), under which Windows opens a file whose long
// name the denylist would refuse.
func isShortName(c string) bool {
	stem, ext, _ := strings.Cut(c, ".")
	base, number, found := strings.Cut(stem, "~")
	return found && base != "" && number != "" && len(stem) <= 8 && len(ext) <= 3 && strings.Trim(number, "0123456789") == ""
}
