//go:build unix

package world

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

// runPatience bounds a command of the CLI.
const runPatience = 120 * time.Second

// Result is a finished command.
type Result struct {
	// Args are the command's, without --home.
	Args   []string
	Stdout []byte
	Stderr []byte
	// Code is the exit code.
	Code int
	// Took is the wall time.
	Took time.Duration
}

// Argv is the weft command line for this node's home.
func (n *Node) Argv(args ...string) []string {
	return append([]string{n.bin, "--home", n.Home}, args...)
}

// Run runs weft with this node's home and waits for it.
func (n *Node) Run(t testing.TB, args ...string) Result {
	t.Helper()
	return n.RunIn(t, Spec{Stdin: bytes.NewReader(nil)}, args...)
}

// RunIn is Run with an input or a directory of the caller's.
func (n *Node) RunIn(t testing.TB, s Spec, args ...string) Result {
	t.Helper()
	p := n.Start(t, s, args...)
	code := p.Wait(t, runPatience)
	return Result{Args: args, Stdout: p.out.bytes(), Stderr: p.errs.bytes(), Code: code, Took: p.took}
}

// Start starts weft with this node's home and does not wait.
func (n *Node) Start(t testing.TB, s Spec, args ...string) *Process {
	t.Helper()
	s.Name = n.Name + ": weft " + strings.Join(args, " ")
	s.Argv, s.Node = n.Argv(args...), n
	if s.Env == nil {
		s.Env = n.Env()
	}
	return n.w.Start(t, s)
}

// OK fails the test unless the command succeeded.
func (r Result) OK(t testing.TB) Result {
	t.Helper()
	if r.Code != 0 {
		t.Fatalf("weft %s: exit code %d\nstdout: %s\nstderr: %s", strings.Join(r.Args, " "), r.Code, r.Stdout, r.Stderr)
	}
	return r
}

// Into decodes standard output, which must be one JSON document and nothing
// else.
func (r Result) Into(t testing.TB, v any) Result {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(r.Stdout))
	if err := dec.Decode(v); err != nil {
		t.Fatalf("weft %s: stdout is not the JSON expected: %v\n%s", strings.Join(r.Args, " "), err, r.Stdout)
	}
	if rest, _ := io.ReadAll(dec.Buffered()); len(bytes.TrimSpace(rest)) > 0 {
		t.Fatalf("weft %s: more than one document on stdout:\n%s", strings.Join(r.Args, " "), r.Stdout)
	}
	return r
}

// Problem is the error document of a failed command.
type Problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

// Fails fails the test unless the command ended with one of the exit codes,
// wrote no data and an error that says what is wrong and what to do: with
// --json as an error document.
func (r Result) Fails(t testing.TB, codes ...int) Problem {
	t.Helper()
	line := "weft " + strings.Join(r.Args, " ")
	if !slices.Contains(codes, r.Code) {
		t.Fatalf("%.300s: exit code %d, want %v\nstdout: %s\nstderr: %s", line, r.Code, codes, r.Stdout, r.Stderr)
	}
	text := string(r.Stderr)
	for _, bad := range []string{"panic:", "goroutine ", "runtime error"} {
		if strings.Contains(text, bad) {
			t.Fatalf("%s: crashed: %s", line, text)
		}
	}
	if !slices.Contains(r.Args, "--json") {
		if strings.TrimSpace(text) == "" {
			t.Fatalf("%s: no word on stderr", line)
		}
		return Problem{Message: text}
	}
	if len(bytes.TrimSpace(r.Stdout)) > 0 {
		t.Fatalf("%s: data on stdout of a failed command: %s", line, r.Stdout)
	}
	var doc struct {
		Error Problem `json:"error"`
	}
	if err := json.Unmarshal(r.Stderr, &doc); err != nil {
		t.Fatalf("%s: stderr is not an error document: %v\n%s", line, err, text)
	}
	if doc.Error.Code == "" || doc.Error.Message == "" || doc.Error.Hint == "" {
		t.Fatalf("%s: code, message or hint is missing: %s", line, text)
	}
	return doc.Error
}
