package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/gate"
)

func names(specs []*Spec) (out []string) {
	for _, s := range specs {
		out = append(out, s.Name)
	}
	return out
}

// TestTable: which tools there are, what each needs and which budget it draws
// from. A change here is a change of the contract.
func TestTable(t *testing.T) {
	t.Parallel()
	type row struct {
		Name                        string
		Right                       workspace.Right
		Class                       gate.Class
		BodyArg                     string
		ReadOnly, Destructive, Idem bool
	}
	want := []row{
		{"workspace_info", 0, gate.Reads, "", true, false, true},
		{"read_file", workspace.Read, gate.Reads, "", true, false, true},
		{"stat", workspace.Read, gate.Reads, "", true, false, true},
		{"list_dir", workspace.Read, gate.Reads, "", true, false, true},
		{"glob", workspace.Read, gate.Reads, "", true, false, true},
		{"grep", workspace.Read, gate.Reads, "", true, false, true},
		{"write_file", workspace.Write, gate.Writes, "content", false, true, false},
		{"edit_file", workspace.Write, gate.Writes, "", false, true, false},
		{"run_command", workspace.Exec, gate.Execs, "", false, true, false},
		{"job_output", workspace.Exec, gate.Reads, "", true, false, true},
		{"job_kill", workspace.Exec, gate.Execs, "", false, true, true},
	}
	var have []row
	for _, s := range All() {
		have = append(have, row{s.Name, s.Right, s.Class, s.BodyArg, s.ReadOnly, s.Destructive, s.Idempotent})
		if s.Title == "" || len(s.Description) < 40 || len(s.Description) > 600 {
			t.Errorf("%s: title %q, description of %d bytes", s.Name, s.Title, len(s.Description))
		}
		if !regexp.MustCompile(`^[a-z][a-z_]{1,63}$`).MatchString(s.Name) { // MCP and every model API take these
			t.Errorf("name %q", s.Name)
		}
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
}

// TestFor: rights decide what is offered, always in the same order.
func TestFor(t *testing.T) {
	t.Parallel()
	read := []string{"workspace_info", "read_file", "stat", "list_dir", "glob", "grep"}
	for _, tc := range []struct {
		rights workspace.Right
		want   []string
	}{
		{0, []string{"workspace_info"}},
		{workspace.Read, read},
		{workspace.Read | workspace.Write, append(slices.Clone(read), "write_file", "edit_file")},
		{workspace.Read | workspace.Exec, append(slices.Clone(read), "run_command", "job_output", "job_kill")},
		{workspace.Delete, []string{"workspace_info"}},
		{workspace.Read | workspace.Write | workspace.Delete | workspace.Exec, names(All())},
	} {
		if diff := cmp.Diff(tc.want, names(For(tc.rights))); diff != "" {
			t.Errorf("%s: %s", tc.rights, diff)
		}
	}
}

// TestTableIsNobodysToChange: what All and For return can be changed freely.
func TestTableIsNobodysToChange(t *testing.T) {
	t.Parallel()
	All()[0] = nil
	For(workspace.Read)[0] = nil
	for i, s := range All() {
		if s == nil {
			t.Fatalf("tool %d is gone", i)
		}
	}
	if _, ok := Lookup("shell"); ok {
		t.Error("there is a shell")
	}
	if _, ok := Lookup(""); ok {
		t.Error("there is a tool without a name")
	}
}

// TestDigest: every word that the agent was shown counts, and so does the
// order; nothing can move from one text to the next unseen.
func TestDigest(t *testing.T) {
	t.Parallel()
	base := Digest(All())
	if base != Digest(All()) {
		t.Fatal("not deterministic")
	}
	seen := map[string]string{base: "the table"}
	add := func(what string, specs []*Spec) {
		t.Helper()
		d := Digest(specs)
		if was, ok := seen[d]; ok {
			t.Errorf("%s has the digest of %s", what, was)
		}
		seen[d] = what
	}
	for i, s := range All() {
		for what, change := range map[string]func(*Spec){
			"name": func(s *Spec) { s.Name += "x" }, "title": func(s *Spec) { s.Title += "x" },
			"description": func(s *Spec) { s.Description += " " }, "schema": func(s *Spec) { s.Schema += " " },
			"a letter moved on": func(s *Spec) { s.Name += s.Title[:1]; s.Title = s.Title[1:] },
		} {
			changed := *s
			change(&changed)
			all := All()
			all[i] = &changed
			add(s.Name+" "+what, all)
		}
		add("without "+s.Name, slices.Delete(All(), i, i+1))
	}
	reversed := All()
	slices.Reverse(reversed)
	add("the other order", reversed)
	empty := sha256.Sum256(nil)
	if got := Digest(nil); got != hex.EncodeToString(empty[:]) {
		t.Errorf("no tools: %s", got)
	}
}
