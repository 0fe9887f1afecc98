package tool

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/weftmesh/weft/workspace"
)

// FuzzDecode gives any bytes to any tool's decoder. It must not panic, must
// read the same twice, and must take nothing that the tool's schema forbids.
func FuzzDecode(f *testing.F) {
	table := All()
	schemas := make([]*jsonschema.Resolved, len(table))
	for i, s := range table {
		_, schemas[i] = parsed(f, s)
		raw, err := json.Marshal(sound[s.Name])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), raw, []byte(nil))
		f.Add(uint8(i), []byte(`{"path":"a","path":"b"}`), []byte("x"))
	}
	f.Fuzz(func(t *testing.T, i uint8, args, content []byte) {
		if len(args) > 1<<16 || len(content) > 1<<16 {
			return
		}
		n := int(i) % len(table)
		s := table[n]
		plan, r := s.Decode(args, content)
		again, r2 := s.Decode(args, content)
		if diff := cmp.Diff(r, r2); diff != "" || plan.Names() != again.Names() || plan.Writes != again.Writes {
			t.Fatalf("read twice: %s %s %q %q", s.Name, diff, plan.Names(), again.Names())
		}
		if r != nil {
			if r.Code != workspace.BadArguments && r.Code != workspace.TooLarge {
				t.Fatalf("%s refuses with %s", s.Name, r.Code)
			}
			if plan.Run != nil || plan.Uses != nil || plan.Argv != nil || plan.Writes != 0 {
				t.Fatalf("%s refuses and leaves a plan %+v", s.Name, plan)
			}
			return
		}
		if plan.Run == nil || plan.Writes < 0 || len(plan.Uses) > 1 {
			t.Fatalf("%s: plan %+v", s.Name, plan)
		}
		var obj map[string]any
		if len(args) > 0 {
			if err := json.Unmarshal(args, &obj); err != nil {
				t.Fatalf("%s took what is no JSON: %v", s.Name, err)
			}
		}
		if obj == nil {
			obj = map[string]any{}
		}
		// As whole arguments, and members of an edit, null means left out.
		dropNulls(obj)
		if edits, ok := obj["edits"].([]any); ok {
			for _, e := range edits {
				if m, ok := e.(map[string]any); ok {
					dropNulls(m)
				}
			}
		}
		if s.BodyArg != "" {
			obj[s.BodyArg] = string(content)
		}
		if err := schemas[n].Validate(obj); err != nil {
			t.Fatalf("%s took %s, which its schema forbids: %v", s.Name, args, err)
		}
	})
}

func dropNulls(m map[string]any) {
	for k, v := range m {
		if v == nil {
			delete(m, k)
		}
	}
}
