// Package tool is the table of tools a workspace session offers: for each its
// arguments (a closed JSON schema and a strict decoder), the right it needs,
// the budget it draws from, and what runs when the gate lets it.
//
// The table is used on both sides. The provider's MCP server shows the specs
// and ships arguments as it got them; the requester decodes them here, and
// only here, so there is one reading of every call. Text that a tool returns
// goes into MCP content only: one header line, then the content.
package tool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/command"
	"github.com/weftmesh/weft/workspace/files"
	"github.com/weftmesh/weft/workspace/gate"
)

// MaxArguments bounds the arguments of any call, in bytes of JSON. Raw content
// travels beside them.
const MaxArguments = 1 << 20

// MaxContent bounds the raw content beside the arguments (write_file).
const MaxContent = 1 << 20

// Spec describes one tool.
type Spec struct {
	Name        string
	Title       string
	Description string
	// Schema is the closed JSON schema of the arguments.
	Schema string
	// Right is what the tool needs in the root it touches; 0 needs nothing.
	Right workspace.Right
	Class gate.Class
	// BodyArg names the argument that the provider ships as raw bytes.
	BodyArg string
	// Hints for the provider's client; never an input to the gate.
	ReadOnly, Destructive, Idempotent bool

	decode func(args, content []byte) (Plan, *workspace.Refusal)
}

// Plan is a decoded call: what the gate needs to know, and how to run it.
type Plan struct {
	Uses []gate.Use
	// Argv is set by run_command, to be matched against the granted commands.
	Argv []string
	// Size refuses declared sizes beyond a limit.
	Size *workspace.Refusal
	// Writes is how many bytes the call wants to write.
	Writes int64
	// Run does the work. Its error is a *workspace.Refusal or *workspace.Failure.
	Run func(ctx context.Context, env *Env) (Output, error)
}

// Names is what the call names, as watchers see it and the log commits to it:
// its paths, then "$" and the argv of a command.
func (p Plan) Names() string {
	var words []string
	for _, u := range p.Uses {
		words = append(words, u.Text)
	}
	if len(p.Argv) > 0 {
		words = append(append(words, "$"), p.Argv...)
	}
	return strings.Join(words, " ")
}

// Env is what a running tool may reach.
type Env struct {
	Tree   *files.Tree
	Runner *command.Runner
	// FirstRoot is where a command runs that names no directory.
	FirstRoot string
	// Command is the matched profile of a run_command call.
	Command command.Plan
	// Rescan looks for what a command left behind.
	Rescan func(ctx context.Context) error
	// Info renders workspace_info.
	Info func() string
	// Progress sends a line to the provider while a call runs; never nil.
	Progress func(text string)
}

// Output is what a call gives back.
type Output struct {
	// Kind is text, image or binary.
	Kind string
	MIME string
	// Body is one header line, a newline and the content, whatever the kind.
	Body []byte
	// Written counts against the session's budget, in bytes.
	Written int64
	// Redacted counts what was taken out.
	Redacted int
	// Changed are the virtual paths this call changed.
	Changed []string
	// Warning is for the requester's eyes: what a command made that tools
	// refuse to touch.
	Warning string
}

// withHeader makes a text output: the header line, then the content.
func withHeader(header string, content []byte) Output {
	body := make([]byte, 0, len(header)+1+len(content))
	body = append(append(body, header...), '\n')
	return Output{Kind: "text", Body: append(body, content...)}
}

var table = []*Spec{workspaceInfo, readFile, stat, listDir, globFiles, grep, writeFile, editFile, runCommand, jobOutput, jobKill}

// All returns every tool in the order that tools/list shows.
func All() []*Spec { return slices.Clone(table) }

// For returns the tools that a session with these rights can use.
func For(rights workspace.Right) []*Spec {
	return slices.DeleteFunc(All(), func(s *Spec) bool { return !rights.Has(s.Right) })
}

// Lookup finds a tool by name.
func Lookup(name string) (*Spec, bool) {
	i := slices.IndexFunc(table, func(s *Spec) bool { return s.Name == name })
	if i < 0 {
		return nil, false
	}
	return table[i], true
}

// Decode reads a call's arguments strictly.
func (s *Spec) Decode(args, content []byte) (Plan, *workspace.Refusal) {
	if len(args) > MaxArguments || len(content) > MaxContent {
		return Plan{}, workspace.Refuse(workspace.TooLarge, "arguments of %d bytes and content of %d, the limits are %d and %d", len(args), len(content), MaxArguments, MaxContent)
	}
	if len(content) > 0 && s.BodyArg == "" {
		return Plan{}, workspace.Refuse(workspace.BadArguments, "%s takes no content", s.Name)
	}
	return s.decode(args, content)
}

// Digest names the descriptions and schemas a provider's agent was shown, so
// that the log can say which words it worked from.
func Digest(specs []*Spec) string {
	h := sha256.New()
	for _, s := range specs {
		for _, part := range []string{s.Name, s.Title, s.Description, s.Schema} {
			h.Write([]byte(part))
			h.Write([]byte{0})
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
