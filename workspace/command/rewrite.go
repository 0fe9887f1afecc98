package command

import (
	"bytes"
	"os"
	"os/user"
	"slices"
	"strings"
)

// rule replaces a literal that no name continues. A rule for a path of this
// machine applies wherever it occurs ("-I/home/..."); others stand alone.
type rule struct {
	from, to string
	anywhere bool
}

// rewriter takes what is the requester's own out of output: host paths of
// roots, the home directory, user and host name. Like the redactor it works on
// a stream and keeps back what could still become a match.
type rewriter struct {
	rules []rule // longest first
	first [256]bool

	held []byte
	prev byte // the byte before held, 0 at the start
	out  []byte
}

// commonNames are user and host names that are ordinary words; replacing them
// would garble output and hide nothing.
var commonNames = []string{"root", "user", "users", "admin", "test", "tests", "guest", "node", "main", "home",
	"work", "code", "data", "local", "localhost", "ubuntu", "debian", "fedora", "runner", "build", "server", "http", "weft"}

func hides(name string) bool {
	return len(name) >= 4 && !slices.Contains(commonNames, strings.ToLower(name))
}

// hostRules are the rules for the roots and this machine.
func hostRules(roots []Mount, stateDir string) []rule {
	var rules []rule
	for _, m := range roots {
		rules = append(rules, rule{"/work/" + m.Name, m.Name, false}, rule{m.HostDir, m.Name, true})
	}
	rules = append(rules, rule{stateDir, "/cache", true})
	if home, err := os.UserHomeDir(); err == nil && len(home) > 1 {
		// "/root" is also part of ordinary paths ("/proc/1/root").
		rules = append(rules, rule{home, "~", strings.Count(home, "/") > 1})
	}
	if u, err := user.Current(); err == nil && hides(u.Username) {
		rules = append(rules, rule{u.Username, "weft", false})
	}
	if h, err := os.Hostname(); err == nil {
		if short, _, ok := strings.Cut(h, "."); ok && hides(short) {
			rules = append(rules, rule{short, "weft", false})
		}
		if hides(h) {
			rules = append(rules, rule{h, "weft", false})
		}
	}
	return rules
}

func newRewriter(rules []rule) *rewriter {
	w := &rewriter{rules: slices.Clone(rules)}
	slices.SortStableFunc(w.rules, func(a, b rule) int { return len(b.from) - len(a.from) })
	for _, r := range w.rules {
		w.first[r.from[0]] = true
	}
	return w
}

// nameByte reports whether c can continue a name in a path or a word.
func nameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-' || c >= 0x80
}

// write takes the next chunk and returns what is decided; last ends the
// stream. The result is valid until the next call.
func (w *rewriter) write(p []byte, last bool) []byte {
	w.out = w.out[:0]
	buf := append(w.held, p...)
	i, done := 0, 0
	prev := w.prev
scan:
	for i < len(buf) {
		c := buf[i]
		if !w.first[c] {
			prev = c
			i++
			continue
		}
		inside := nameByte(prev) || prev == '.' && c == '/'
		for _, r := range w.rules {
			if inside && !r.anywhere {
				continue
			}
			rest := buf[i:]
			if len(rest) <= len(r.from) && !last && bytes.HasPrefix([]byte(r.from), rest) {
				break scan // may become this rule, or needs the byte behind it
			}
			if len(rest) < len(r.from) || string(rest[:len(r.from)]) != r.from {
				continue
			}
			if len(rest) > len(r.from) && nameByte(rest[len(r.from)]) {
				continue
			}
			w.out = append(append(w.out, buf[done:i]...), r.to...)
			i += len(r.from)
			done = i
			prev = 'x' // what follows continues a name
			continue scan
		}
		prev = c
		i++
	}
	w.out = append(w.out, buf[done:i]...)
	w.held = append(w.held[:0], buf[i:]...)
	w.prev = prev
	return w.out
}
