package tool

import (
	"fmt"
	"math"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/weftmesh/weft/protocols/strict"
	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/gate"
)

// pathWords says in every schema what a path is, since models mix up local and
// remote absolute paths.
const pathWords = `a path in this workspace: a granted root's name, then the path below it, such as app/src/main.go; never absolute, never ..`

// arguments decodes into v; a missing object counts as an empty one.
func arguments(raw []byte, v any) *workspace.Refusal {
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	if err := strict.Unmarshal(raw, MaxArguments, v); err != nil {
		return workspace.Refuse(workspace.BadArguments, "%s", strings.TrimPrefix(err.Error(), strict.ErrInput.Error()+": "))
	}
	return nil
}

// whole is an integer argument. 10.0 and 1e1 are integers too, in JSON Schema
// as well as for the clients that write every number as a double.
type whole int64

// UnmarshalJSONFrom reads a number without a fraction, or null as 0.
func (w *whole) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*w = 0
	tok, err := dec.ReadToken()
	if err != nil || tok.Kind() == 'n' {
		return err
	}
	if tok.Kind() != '0' {
		return fmt.Errorf("a %s where a number belongs", tok.Kind())
	}
	f, err := tok.Float() // exact: package strict lets no number beyond 2^53 through
	if err != nil || f != math.Trunc(f) {
		return fmt.Errorf("%.40s is not a whole number", tok)
	}
	*w = whole(f)
	return nil
}

// text is a string inside a list or a map, where null would silently be an
// empty one. As a whole argument, null means that it was left out.
type text string

// UnmarshalJSONFrom reads a string and nothing else.
func (t *text) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	tok, err := dec.ReadToken()
	if err != nil {
		return err
	}
	if tok.Kind() != '"' {
		return fmt.Errorf("a %s where a string belongs", tok.Kind())
	}
	*t = text(tok.String())
	return nil
}

// between refuses a number outside its bounds.
func between(name string, v whole, low, high int64) *workspace.Refusal {
	if int64(v) < low || int64(v) > high {
		return workspace.Refuse(workspace.BadArguments, "%s is %d, allowed is %d to %d", name, v, low, high)
	}
	return nil
}

// given refuses a call that left a required text out: an empty text and none
// are not the same to somebody who edits.
func given[T ~string](name string, v *T) *workspace.Refusal {
	if v == nil {
		return workspace.Refuse(workspace.BadArguments, "%s is missing", name)
	}
	return nil
}

// oneOf refuses a word that is not in the list.
func oneOf(name, v string, allowed ...string) *workspace.Refusal {
	for _, a := range allowed {
		if v == a {
			return nil
		}
	}
	return workspace.Refuse(workspace.BadArguments, "%s is %q, allowed is %s", name, v, strings.Join(allowed, ", "))
}

// firstOf returns the first refusal.
func firstOf(refusals ...*workspace.Refusal) *workspace.Refusal {
	for _, r := range refusals {
		if r != nil {
			return r
		}
	}
	return nil
}

// or gives an optional argument its default.
func or[T any](v *T, def T) T {
	if v == nil {
		return def
	}
	return *v
}

// use is a plan's single path.
func use(path string, want workspace.Right) []gate.Use {
	return []gate.Use{{Text: path, Want: want}}
}

// mustPath turns a path that the gate has passed into its type.
func mustPath(s string) (workspace.Path, error) {
	p, bad := workspace.ParsePath(s)
	if bad != nil {
		return p, bad
	}
	return p, nil
}

// schema builds a closed object schema from its properties.
func schema(required string, properties ...string) string {
	req := ""
	if required != "" {
		req = fmt.Sprintf(`"required":[%s],`, quoteList(required))
	}
	return fmt.Sprintf(`{"type":"object","additionalProperties":false,%s"properties":{%s}}`, req, strings.Join(properties, ","))
}

func quoteList(words string) string {
	return `"` + strings.Join(strings.Fields(words), `","`) + `"`
}

func str(name, words string) string {
	return fmt.Sprintf(`%q:{"type":"string","description":%q}`, name, words)
}

func enum(name, words string, values ...string) string {
	return fmt.Sprintf(`%q:{"type":"string","enum":[%s],"description":%q}`, name, quoteList(strings.Join(values, " ")), words)
}

func integer(name, words string, low, high int64) string {
	return fmt.Sprintf(`%q:{"type":"integer","minimum":%d,"maximum":%d,"description":%q}`, name, low, high, words)
}

func boolean(name, words string) string {
	return fmt.Sprintf(`%q:{"type":"boolean","description":%q}`, name, words)
}
