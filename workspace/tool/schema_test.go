package tool

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/weftmesh/weft/workspace"
)

// parsed is a tool's schema, read and resolved the way a client does it.
func parsed(t testing.TB, s *Spec) (*jsonschema.Schema, *jsonschema.Resolved) {
	t.Helper()
	var schema jsonschema.Schema
	if err := json.Unmarshal([]byte(s.Schema), &schema); err != nil {
		t.Fatalf("%s: the schema is no JSON schema: %v", s.Name, err)
	}
	resolved, err := schema.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		t.Fatalf("%s: %v", s.Name, err)
	}
	return &schema, resolved
}

// closed walks a schema: every object says what it holds and lets nothing else
// in, and every property is described.
func closed(t *testing.T, at string, s *jsonschema.Schema) {
	t.Helper()
	switch s.Type {
	case "object":
		if s.AdditionalProperties == nil {
			t.Errorf("%s: an open object", at)
		} else if len(s.Properties) > 0 && !isFalse(s.AdditionalProperties) {
			t.Errorf("%s: lets other members in", at)
		}
		for _, name := range s.Required {
			if s.Properties[name] == nil {
				t.Errorf("%s: requires %q, which it doesn't have", at, name)
			}
		}
		for name, p := range s.Properties {
			if p.Description == "" && p.Items == nil {
				t.Errorf("%s.%s: has no description", at, name)
			}
			closed(t, at+"."+name, p)
		}
	case "array":
		if s.Items == nil || s.MaxItems == nil {
			t.Errorf("%s: an array of anything, or without end", at)
			return
		}
		closed(t, at+"[]", s.Items)
	case "integer":
		if s.Minimum == nil || s.Maximum == nil {
			t.Errorf("%s: a number without bounds", at)
		}
	case "string", "boolean":
	default:
		t.Errorf("%s: type %q", at, s.Type)
	}
}

func isFalse(s *jsonschema.Schema) bool {
	raw, err := json.Marshal(s)
	return err == nil && string(raw) == "false"
}

func TestSchemasAreClosed(t *testing.T) {
	t.Parallel()
	for _, s := range All() {
		schema, _ := parsed(t, s)
		if schema.Type != "object" {
			t.Errorf("%s: the schema is for a %q", s.Name, schema.Type)
		}
		closed(t, s.Name, schema)
		if s.BodyArg != "" && schema.Properties[s.BodyArg] == nil {
			t.Errorf("%s: ships %q, which its schema doesn't have", s.Name, s.BodyArg)
		}
	}
}

// sound are arguments that satisfy each tool, as objects: the point from which
// single members are varied.
var sound = map[string]map[string]any{
	"workspace_info": {},
	"read_file":      {"path": "app/a"},
	"stat":           {"path": "app/a"},
	"list_dir":       {"path": "app"},
	"glob":           {"path": "app", "pattern": "*"},
	"grep":           {"path": "app", "pattern": "x"},
	"write_file":     {"path": "app/a", "content": "x", "mode": "create"},
	"edit_file":      {"path": "app/a", "edits": []any{map[string]any{"old": "a", "new": "b"}}},
	"run_command":    {"argv": []any{"go", "test"}},
	"job_output":     {"job": "j-1"},
	"job_kill":       {"job": "j-1"},
}

// better are values for strings that have a grammar of their own.
var better = map[string]any{
	"if_sha256": strings.Repeat("0a", 32), "job": "job-7", "cwd": "app", "env": map[string]any{"GOFLAGS": "-v"},
}

// decoded says whether the decoder takes an object, with the raw argument
// taken out as the provider does.
func decoded(t testing.TB, s *Spec, obj map[string]any) *workspace.Refusal {
	t.Helper()
	args := maps.Clone(obj)
	var content []byte
	if text, ok := args[s.BodyArg].(string); ok && s.BodyArg != "" {
		content = []byte(text)
		delete(args, s.BodyArg)
	}
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	_, r := s.Decode(raw, content)
	return r
}

// TestSchemasAgree: what a schema allows, the decoder takes, and what it
// forbids, the decoder refuses. The cases are made from the schema.
func TestSchemasAgree(t *testing.T) {
	t.Parallel()
	for _, s := range All() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			schema, resolved := parsed(t, s)
			base, ok := sound[s.Name]
			if !ok {
				t.Fatalf("no sound arguments of %s are known here", s.Name)
			}
			// Validators want float64, as decoded JSON has it.
			validate := func(obj map[string]any) error {
				raw, err := json.Marshal(obj)
				if err != nil {
					t.Fatal(err)
				}
				var v any
				if err := json.Unmarshal(raw, &v); err != nil {
					t.Fatal(err)
				}
				return resolved.Validate(v)
			}
			agree := func(what string, obj map[string]any, want bool) {
				t.Helper()
				if err := validate(obj); (err == nil) != want {
					t.Errorf("%s: the schema says %v, want valid %t", what, err, want)
				}
				if r := decoded(t, s, obj); (r == nil) != want {
					t.Errorf("%s: the decoder says %v, want taken %t", what, r, want)
				}
			}
			agree("sound arguments", base, true)
			for name, p := range schema.Properties {
				for what, v := range inside(name, p) {
					agree(fmt.Sprintf("%s: %s (%.40v)", name, what, v), with(base, name, v), true)
				}
				for what, v := range outside(p) {
					agree(fmt.Sprintf("%s: %s (%.40v)", name, what, v), with(base, name, v), false)
				}
			}
			for _, name := range schema.Required {
				if name == s.BodyArg {
					continue // raw bytes: the provider sees that it is there
				}
				less := maps.Clone(base)
				delete(less, name)
				agree("without "+name, less, false)
			}
			for _, extra := range []string{"x", "Path", "PATH", "path ", "_meta", ""} {
				agree(fmt.Sprintf("with %q", extra), with(base, extra, "y"), false)
			}
		})
	}
}

func with(base map[string]any, name string, v any) map[string]any {
	out := maps.Clone(base)
	out[name] = v
	return out
}

// inside are values that a property allows.
func inside(name string, p *jsonschema.Schema) map[string]any {
	if v, ok := better[name]; ok {
		return map[string]any{"well formed": v}
	}
	switch {
	case len(p.Enum) > 0:
		out := map[string]any{}
		for _, v := range p.Enum {
			if v == "overwrite" { // needs a hash beside it
				continue
			}
			if name == "encoding" && v == "base64" { // needs content of that kind
				continue
			}
			out[fmt.Sprintf("word %v", v)] = v
		}
		return out
	case p.Type == "integer":
		low, high := *p.Minimum, *p.Maximum
		return map[string]any{"lowest": low, "highest": high, "between": math.Floor((low + high) / 2)}
	case p.Type == "boolean":
		return map[string]any{"true": true, "false": false}
	case p.Type == "string":
		return map[string]any{"ASCII": "text", "other scripts": "文字"}
	case p.Type == "array" && p.Items.Type == "string":
		return map[string]any{"one": []any{"a"}, "most": slices.Repeat([]any{"a"}, *p.MaxItems)}
	case p.Type == "array":
		one := map[string]any{"old": "a", "new": ""}
		return map[string]any{"one": []any{one}, "most": slices.Repeat([]any{one}, *p.MaxItems),
			"counted": []any{map[string]any{"old": "a", "new": "b", "count": 100000.0}}, "all": []any{map[string]any{"old": "a", "new": "b", "all": true}}}
	}
	return nil
}

// outside are values that a property forbids.
func outside(p *jsonschema.Schema) map[string]any {
	out := map[string]any{}
	types := map[string]any{"string": "no", "boolean": true, "integer": 5.0, "array": []any{}, "object": map[string]any{"a": 1.0}}
	for typ, v := range types {
		if typ != p.Type {
			out["a "+typ] = v
		}
	}
	switch {
	case len(p.Enum) > 0:
		out["another word"], out["a word in capitals"], out["no word"] = "other", strings.ToUpper(fmt.Sprint(p.Enum[0]))+"X", ""
	case p.Type == "integer":
		out["below"], out["above"], out["a fraction"], out["far above"] = *p.Minimum-1, *p.Maximum+1, *p.Minimum+0.5, 9007199254740992.0
	case p.Type == "array":
		out["none"] = []any{}
		out["one of another type"] = []any{5.0}
		out["too many"] = slices.Repeat([]any{map[string]any{"old": "a", "new": "b"}}, *p.MaxItems+1)
		if p.Items.Type == "string" {
			out["too many"] = slices.Repeat([]any{"a"}, *p.MaxItems+1)
		} else {
			out["a member too much"] = []any{map[string]any{"old": "a", "new": "b", "x": 1.0}}
			out["without new"] = []any{map[string]any{"old": "a"}}
			out["without old"] = []any{map[string]any{"new": "a"}}
			out["count below"] = []any{map[string]any{"old": "a", "new": "b", "count": 0.0}}
		}
	}
	return out
}
