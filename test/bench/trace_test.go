//go:build linux

package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// call is one step of an agent's trace.
type call struct {
	tool string
	args []byte
	// holds must be in the answer; "" is not looked for.
	holds string
}

// traceCalls is how many calls a trace has.
const traceCalls = 20

// trace is what a coding agent does in a small task: it looks around, searches,
// reads, changes four files and looks again. n counts the traces of one folder,
// since an edit can only be made once.
func trace(n int) []call {
	var all []call
	add := func(tool, holds string, args object) { all = append(all, call{tool, args.json(), holds}) }
	readSource := func(i int) {
		add("read_file", fmt.Sprintf("func Handle%02d", i), object{"path": "work/" + sourceName(i)})
	}
	add("workspace_info", "work", object{})
	add("list_dir", "f23.go", object{"path": "work/src"})
	add("grep", "f07.go", object{"path": "work/src", "pattern": "func Handle07"})
	add("grep", "f23.go", object{"path": "work/src", "pattern": "does one thing"})
	for i := range 4 {
		readSource(i)
	}
	add("grep", "f11.go", object{"path": "work/src", "pattern": "helper11_0[0-3]"})
	add("grep", "f20.go", object{"path": "work/src", "pattern": "func Handle2"})
	for i := range 4 {
		readSource(8 + i)
	}
	for i := range editFiles {
		add("edit_file", step(n+1), object{"path": "work/" + editName(i), "edits": []object{{"old": step(n), "new": step(n + 1)}}})
	}
	add("stat", "e0.go", object{"path": "work/" + editName(0)})
	add("glob", "f00.go", object{"path": "work", "pattern": "**/*.go"})
	return all
}

// traces returns the operation that plays the next trace.
func traces(c caller) func(context.Context) error {
	n := 0
	return func(ctx context.Context) error {
		for i, s := range trace(n) {
			got, err := c.call(ctx, s.tool, s.args)
			if err != nil {
				return fmt.Errorf("call %d, %s %s: %w", i+1, s.tool, s.args, err)
			}
			if !bytes.Contains(got.head, []byte(s.holds)) && !bytes.Contains(got.body, []byte(s.holds)) {
				return fmt.Errorf("call %d, %s %s: no %q in %.200q %.200q", i+1, s.tool, s.args, s.holds, got.head, got.body)
			}
		}
		n++
		return nil
	}
}

// checkEdits says whether the folder is as an even or odd number of traces
// leaves it: every edit was made, and none twice.
func checkEdits(tb testing.TB, dir string) {
	tb.Helper()
	var steps []bool
	for i := range editFiles {
		raw, err := os.ReadFile(filepath.Join(dir, editName(i)))
		if err != nil {
			tb.Fatal(err)
		}
		even, odd := bytes.Count(raw, []byte(step(0))), bytes.Count(raw, []byte(step(1)))
		if even+odd != 1 {
			tb.Errorf("%s: %d and %d marks, want one", editName(i), even, odd)
		}
		steps = append(steps, even == 1)
	}
	for _, s := range steps {
		if s != steps[0] {
			tb.Errorf("%s: some files were edited and some were not: %v", dir, steps)
		}
	}
}
