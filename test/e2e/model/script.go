package model

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// Result is what one tool call of the script gave, as the agent passed it on.
type Result struct {
	// Step is the index of the script's step that asked for the call.
	Step int
	// Text is the text of the result: MCP content joined, wrappers of the
	// agent taken off where they are known.
	Text string
	// Failed is set when the protocol marks the result as an error (only
	// Anthropic's does).
	Failed bool
}

// Step is one tool call the model makes.
type Step struct {
	// Tool is the tool's own name, such as "read_file". The agent's prefix
	// (mcp__weft__, weft_) is found in the list of tools it offers.
	Tool string
	// Args are the call's arguments: any JSON value, or a
	// func([]Result) (any, error) that computes one from the results so far.
	Args any
	// Skip leaves the step out when it returns true. May be nil.
	Skip func([]Result) bool
	// Again repeats the step while it returns true for its last result, as
	// for polling a job. May be nil.
	Again func(Result) bool
}

// Script is what the model does when it sees the trigger.
type Script struct {
	// Trigger is a word of the prompt that starts the script. Required.
	Trigger string
	// Server is a word the offered tool's prefix must hold, so that an
	// agent's built-in "grep" is never taken for the session's. Required.
	Server string
	// Steps are the calls, in order.
	Steps []Step
	// Final makes the closing text. Nil quotes the last result.
	Final func([]Result) string
	// Limit is how many requests may be answered before the guard speaks.
	// Zero means four a step and eight more.
	Limit int
}

// Texts that the server says outside the script; a test looks for them.
const (
	Idle      = "weft e2e"
	LoopGuard = "LOOP GUARD"
	NoTool    = "NO TOOL"
	BadScript = "BAD SCRIPT"
)

// tool is a tool as the agent offered it. Group is the namespace that the
// responses protocol may put around a server's tools.
type tool struct{ group, name string }

// turn is what a request of any protocol comes down to.
type turn struct {
	model   string
	stream  bool
	prompt  string
	tools   []tool
	results []Result // Step is not set yet
}

// call is a tool call to make.
type call struct {
	id   string
	tool tool
	args json.RawMessage
}

// reply is what the model says: a call, or else a text.
type reply struct {
	call *call
	text string
}

// decide gives the reply for a turn. It is pure: the place in the script
// follows from the results in the history.
func (s *Script) decide(t turn) reply {
	if len(t.tools) == 0 || !strings.Contains(t.prompt, s.Trigger) {
		return reply{text: Idle}
	}
	results := make([]Result, 0, len(t.results))
	at := s.next(0, results)
	for _, r := range t.results {
		r.Step = at
		results = append(results, r)
		if at < len(s.Steps) && s.Steps[at].Again != nil && s.Steps[at].Again(r) {
			continue
		}
		at = s.next(at+1, results)
	}
	if at >= len(s.Steps) {
		return reply{text: s.final(results)}
	}
	step := s.Steps[at]
	offered, ok := s.find(step.Tool, t.tools)
	if !ok {
		return reply{text: NoTool + " " + step.Tool}
	}
	args, err := step.arguments(results)
	if err != nil {
		return reply{text: fmt.Sprintf("%s step %d (%s): %v", BadScript, at, step.Tool, err)}
	}
	return reply{call: &call{id: fmt.Sprintf("weft_call_%d", len(results)), tool: offered, args: args}}
}

// next is the first step from at on that is not skipped.
func (s *Script) next(at int, results []Result) int {
	for at < len(s.Steps) && s.Steps[at].Skip != nil && s.Steps[at].Skip(results) {
		at++
	}
	return at
}

func (s *Script) final(results []Result) string {
	switch {
	case s.Final != nil:
		return s.Final(results)
	case len(results) == 0:
		return "FINAL"
	}
	return "FINAL " + results[len(results)-1].Text
}

// find picks the offered tool whose name ends in want and whose prefix or
// namespace names the server.
func (s *Script) find(want string, tools []tool) (tool, bool) {
	for _, t := range tools {
		prefix, ok := strings.CutSuffix(t.name, want)
		if !ok || (prefix != "" && !strings.ContainsAny(prefix[len(prefix)-1:], "_-./:")) {
			continue // "reread_file" is not "read_file", "x_read_file" may be
		}
		if strings.Contains(strings.ToLower(t.group+prefix), s.Server) {
			return t, true
		}
	}
	return tool{}, false
}

func (st Step) arguments(results []Result) (json.RawMessage, error) {
	v := st.Args
	if f, ok := v.(func([]Result) (any, error)); ok {
		var err error
		if v, err = f(results); err != nil {
			return nil, err
		}
	}
	if v == nil {
		v = struct{}{}
	}
	return json.Marshal(v)
}

// Quote finds the first group of re in a result, for arguments and closing
// texts that depend on one.
func Quote(r Result, re *regexp.Regexp) (string, error) {
	m := re.FindStringSubmatch(r.Text)
	if len(m) < 2 {
		return "", fmt.Errorf("no %v in the result of step %d: %.200q", re, r.Step, r.Text)
	}
	return m[1], nil
}
