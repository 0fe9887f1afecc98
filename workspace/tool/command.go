package tool

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"time"

	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/command"
	"github.com/weftmesh/weft/workspace/gate"
)

// Bounds of a command (reference workspace.md section 2).
const (
	maxArgv    = 128
	maxArgLen  = 32 << 10
	maxStdin   = 256 << 10
	maxTimeout = 600_000 // ms
	minYield   = 250     // ms
	maxYield   = 30_000  // ms, below the 60 s that agents give a call
	maxWait    = 30_000  // ms
	maxChanged = 100     // paths shown after a command
)

var (
	envKey  = regexp.MustCompile(`^[A-Z_][A-Z0-9_]{0,63}$`)
	jobName = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)
)

// fromCommand turns a job's state into a tool's output.
func fromCommand(r command.Result) Output {
	content := r.Output
	if len(r.Changed) > 0 {
		content = append(bytes.TrimSuffix(content, []byte("\n")), "\nchanged: "+strings.Join(r.Changed[:min(len(r.Changed), maxChanged)], " ")...)
		if len(r.Changed) > maxChanged || r.ChangedTruncated {
			content = append(content, " ..."...)
		}
	}
	o := withHeader(r.Header(), content)
	o.Redacted, o.Changed = r.Redacted, r.Changed
	if n := len(r.CreatedDenied); n > 0 {
		o.Warning = "the command made " + strings.Join(r.CreatedDenied[:min(n, maxChanged)], " ") + ", which tools don't touch; look before you use it"
	}
	return o
}

var runCommand = &Spec{
	Name: "run_command", Title: "Run a command", Right: workspace.Exec, Class: gate.Execs, Destructive: true,
	Description: "Runs one granted command (workspace_info lists them) as an argument list, never through a shell, in a sandbox without network. Returns when it ends, or after yield_ms with a job to follow with job_output. The working directory is cwd, or the first root.",
	Schema: schema("argv",
		`"argv":{"type":"array","minItems":1,"maxItems":128,"items":{"type":"string"},"description":"program and arguments, one each, such as [\"go\",\"test\",\"./...\"]"}`,
		str("cwd", pathWords),
		`"env":{"type":"object","additionalProperties":{"type":"string"},"description":"environment variables that the profile allows"}`,
		str("stdin", "text for standard input"),
		integer("timeout_ms", "stop the command after this long, 120000 unless given", 1, maxTimeout),
		integer("yield_ms", "return with a job if it still runs, 10000 unless given", minYield, maxYield),
		integer("max_bytes", "output to show, 30000 unless given", 256, 96<<10)),
	decode: func(args, _ []byte) (Plan, *workspace.Refusal) {
		var a struct {
			Argv      []text          `json:"argv"`
			Cwd       *string         `json:"cwd"`
			Env       map[string]text `json:"env"`
			Stdin     string          `json:"stdin"`
			TimeoutMS *whole          `json:"timeout_ms"`
			YieldMS   *whole          `json:"yield_ms"`
			MaxBytes  *whole          `json:"max_bytes"`
		}
		if r := arguments(args, &a); r != nil {
			return Plan{}, r
		}
		var p Plan
		size := 0
		for _, s := range a.Argv {
			p.Argv = append(p.Argv, string(s))
			size += len(s)
		}
		if r := firstOf(
			between("number of arguments", whole(len(a.Argv)), 1, maxArgv), between("length of argv", whole(size), 1, maxArgLen),
			between("length of stdin", whole(len(a.Stdin)), 0, maxStdin), between("number of env entries", whole(len(a.Env)), 0, 32),
			between("timeout_ms", or(a.TimeoutMS, 120_000), 1, maxTimeout), between("yield_ms", or(a.YieldMS, 10_000), minYield, maxYield),
			between("max_bytes", or(a.MaxBytes, 30_000), 256, 96<<10)); r != nil {
			return Plan{}, r
		}
		vars := make(map[string]string, len(a.Env))
		for k, v := range a.Env {
			vars[k] = string(v)
			if !envKey.MatchString(k) || len(v) > 4096 {
				return Plan{}, workspace.Refuse(workspace.BadArguments, "env %q is not a variable name, or its value is over 4096 bytes", k)
			}
		}
		if a.Cwd != nil {
			p.Uses = use(*a.Cwd, workspace.Read|workspace.Exec)
		}
		p.Run = func(ctx context.Context, env *Env) (Output, error) {
			req := command.Request{
				Plan: env.Command, Env: vars, Stdin: []byte(a.Stdin), MaxBytes: int(or(a.MaxBytes, 30_000)),
				Timeout: time.Duration(or(a.TimeoutMS, 120_000)) * time.Millisecond, Yield: time.Duration(or(a.YieldMS, 10_000)) * time.Millisecond,
				Progress: func(p []byte) { env.Progress(string(p)) },
			}
			req.Root = env.FirstRoot
			if a.Cwd != nil {
				cwd, err := mustPath(*a.Cwd)
				if err != nil {
					return Output{}, err
				}
				req.Root, req.Cwd = cwd.Root(), cwd.Rel()
			}
			res, err := env.Runner.Run(ctx, req)
			// The command may have been stopped; what it left is looked at all the same.
			if rescan := env.Rescan(context.WithoutCancel(ctx)); err == nil && rescan != nil {
				err = rescan
			}
			if err != nil {
				return Output{}, err
			}
			return fromCommand(res), nil
		}
		return p, nil
	},
}

var jobOutput = &Spec{
	Name: "job_output", Title: "Read a job's output", Right: workspace.Exec, ReadOnly: true, Idempotent: true,
	Description: "Returns what a running command printed since a byte cursor, and whether it still runs. Pass the cursor of the first line as after to go on.",
	Schema: schema("job",
		str("job", "the job that run_command returned"),
		integer("after", "byte cursor, 0 for the start", 0, 1<<52),
		integer("wait_ms", "wait this long for new output", 0, maxWait)),
	decode: func(args, _ []byte) (Plan, *workspace.Refusal) {
		var a struct {
			Job    string `json:"job"`
			After  whole  `json:"after"`
			WaitMS whole  `json:"wait_ms"`
		}
		if r := arguments(args, &a); r != nil {
			return Plan{}, r
		}
		if r := firstOf(job(a.Job), between("after", a.After, 0, 1<<52), between("wait_ms", a.WaitMS, 0, maxWait)); r != nil {
			return Plan{}, r
		}
		return Plan{Run: func(ctx context.Context, env *Env) (Output, error) {
			res, err := env.Runner.Output(ctx, a.Job, int64(a.After), time.Duration(a.WaitMS)*time.Millisecond)
			if err != nil {
				return Output{}, err
			}
			return fromCommand(res), nil
		}}, nil
	},
}

var jobKill = &Spec{
	Name: "job_kill", Title: "Stop a job", Right: workspace.Exec, Class: gate.Execs, Destructive: true, Idempotent: true,
	Description: "Stops a running command with everything it started.",
	Schema:      schema("job", str("job", "the job that run_command returned"), enum("signal", "TERM unless given", "TERM", "KILL")),
	decode: func(args, _ []byte) (Plan, *workspace.Refusal) {
		var a struct {
			Job    string  `json:"job"`
			Signal *string `json:"signal"`
		}
		if r := arguments(args, &a); r != nil {
			return Plan{}, r
		}
		if r := firstOf(job(a.Job), oneOf("signal", or(a.Signal, "TERM"), "TERM", "KILL")); r != nil {
			return Plan{}, r
		}
		return Plan{Run: func(ctx context.Context, env *Env) (Output, error) {
			res, err := env.Runner.Kill(ctx, a.Job, or(a.Signal, "TERM"))
			if err != nil {
				return Output{}, err
			}
			return fromCommand(res), nil
		}}, nil
	},
}

func job(s string) *workspace.Refusal {
	if !jobName.MatchString(s) {
		return workspace.Refuse(workspace.BadArguments, "%q is not the name of a job; run_command returns it", s)
	}
	return nil
}

var workspaceInfo = &Spec{
	Name: "workspace_info", Title: "What is granted", ReadOnly: true, Idempotent: true,
	Description: "Says what this session grants: the roots and their rights, the commands with examples, what is left of each limit, when it ends, and the task. Call it first.",
	Schema:      schema(""),
	decode: func(args, _ []byte) (Plan, *workspace.Refusal) {
		var a struct{}
		if r := arguments(args, &a); r != nil {
			return Plan{}, r
		}
		return Plan{Run: func(_ context.Context, env *Env) (Output, error) {
			return withHeader(env.Info(), nil), nil
		}}, nil
	},
}
