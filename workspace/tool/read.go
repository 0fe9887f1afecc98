package tool

import (
	"context"

	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/files"
)

// fromFiles turns a result of package files into a tool's output.
func fromFiles(o files.Output) Output {
	out := withHeader(o.Header, o.Body)
	out.Kind, out.MIME, out.Redacted = string(o.Kind), o.MIME, o.Redacted
	return out
}

var readFile = &Spec{
	Name: "read_file", Title: "Read a file", Right: workspace.Read, ReadOnly: true, Idempotent: true,
	Description: "Reads a text file by lines, or any file by bytes. The first line of the result describes the file (size, sha256, line ends, what is shown and how to go on); then the lines follow exactly as they are. Images come back as images. Give sha256 back as if_sha256 when you write.",
	Schema: schema("path",
		str("path", pathWords),
		integer("start_line", "first line to show, from 1", 1, 1<<31),
		integer("max_lines", "how many lines, 2000 unless given", 1, 2000),
		integer("offset", "read bytes instead of lines, from this offset", 0, 1<<52),
		integer("length", "how many bytes, 32768 unless given", 1, 256<<10),
		enum("encoding", "base64 returns raw bytes", "auto", "base64"),
		boolean("numbers", "put line numbers before the lines"),
		integer("max_bytes", "budget of the shown text, 32768 unless given", 1024, 96<<10)),
	decode: func(args, _ []byte) (Plan, *workspace.Refusal) {
		var a struct {
			Path      *string `json:"path"`
			StartLine *whole  `json:"start_line"`
			MaxLines  *whole  `json:"max_lines"`
			Offset    *whole  `json:"offset"`
			Length    *whole  `json:"length"`
			Encoding  *string `json:"encoding"`
			Numbers   bool    `json:"numbers"`
			MaxBytes  *whole  `json:"max_bytes"`
		}
		if r := arguments(args, &a); r != nil {
			return Plan{}, r
		}
		byBytes := a.Offset != nil || a.Length != nil
		if byBytes && (a.StartLine != nil || a.MaxLines != nil) {
			return Plan{}, workspace.Refuse(workspace.BadArguments, "read by lines (start_line, max_lines) or by bytes (offset, length), not both")
		}
		if r := firstOf(
			given("path", a.Path), between("start_line", or(a.StartLine, 1), 1, 1<<31),
			between("max_lines", or(a.MaxLines, 2000), 1, 2000),
			between("offset", or(a.Offset, 0), 0, 1<<52),
			between("length", or(a.Length, 32<<10), 1, 256<<10),
			between("max_bytes", or(a.MaxBytes, 32<<10), 1024, 96<<10),
			oneOf("encoding", or(a.Encoding, "auto"), "auto", "base64")); r != nil {
			return Plan{}, r
		}
		req := files.ReadRequest{StartLine: int(or(a.StartLine, 0)), MaxLines: int(or(a.MaxLines, 0)), Offset: int64(or(a.Offset, 0)),
			Encoding: or(a.Encoding, "auto"), Numbers: a.Numbers, MaxBytes: int(or(a.MaxBytes, 0))}
		if byBytes {
			req.Length = int64(or(a.Length, 32<<10))
		}
		return Plan{Uses: use(*a.Path, workspace.Read), Run: func(ctx context.Context, env *Env) (Output, error) {
			var err error
			if req.Path, err = mustPath(*a.Path); err != nil {
				return Output{}, err
			}
			res, err := env.Tree.Read(ctx, req)
			if err != nil {
				return Output{}, err
			}
			return fromFiles(res.Output), nil
		}}, nil
	},
}

var stat = &Spec{
	Name: "stat", Title: "Describe a path", Right: workspace.Read, ReadOnly: true, Idempotent: true,
	Description: "Says what a path is: type, size, mode, modification time, sha256, whether git ignores it and whether you may write it. Links are described, not followed.",
	Schema:      schema("path", str("path", pathWords)),
	decode: func(args, _ []byte) (Plan, *workspace.Refusal) {
		var a struct {
			Path *string `json:"path"`
		}
		if r := arguments(args, &a); r != nil {
			return Plan{}, r
		}
		if r := given("path", a.Path); r != nil {
			return Plan{}, r
		}
		return Plan{Uses: use(*a.Path, workspace.Read), Run: func(ctx context.Context, env *Env) (Output, error) {
			p, err := mustPath(*a.Path)
			if err != nil {
				return Output{}, err
			}
			res, err := env.Tree.Stat(ctx, files.StatRequest{Path: p})
			if err != nil {
				return Output{}, err
			}
			return fromFiles(res.Output), nil
		}}, nil
	},
}

var listDir = &Spec{
	Name: "list_dir", Title: "List a directory", Right: workspace.Read, ReadOnly: true, Idempotent: true,
	Description: "Lists a directory in order of name, one entry a line with type and size. What .gitignore leaves out and what is denied is not shown, only counted in the first line. A cursor continues a long listing.",
	Schema: schema("path",
		str("path", pathWords),
		integer("depth", "levels to show, 1 unless given", 1, 5),
		integer("limit", "entries to show, 500 unless given", 1, 1000),
		str("cursor", "the cursor of the page before"),
		boolean("include_ignored", "also show what .gitignore leaves out")),
	decode: func(args, _ []byte) (Plan, *workspace.Refusal) {
		var a struct {
			Path           *string `json:"path"`
			Depth          *whole  `json:"depth"`
			Limit          *whole  `json:"limit"`
			Cursor         string  `json:"cursor"`
			IncludeIgnored bool    `json:"include_ignored"`
		}
		if r := arguments(args, &a); r != nil {
			return Plan{}, r
		}
		if r := firstOf(given("path", a.Path), between("depth", or(a.Depth, 1), 1, 5), between("limit", or(a.Limit, 500), 1, 1000)); r != nil {
			return Plan{}, r
		}
		return Plan{Uses: use(*a.Path, workspace.Read), Run: func(ctx context.Context, env *Env) (Output, error) {
			p, err := mustPath(*a.Path)
			if err != nil {
				return Output{}, err
			}
			res, err := env.Tree.List(ctx, files.ListRequest{Path: p, Depth: int(or(a.Depth, 1)), Limit: int(or(a.Limit, 500)), Cursor: a.Cursor, IncludeIgnored: a.IncludeIgnored})
			if err != nil {
				return Output{}, err
			}
			return fromFiles(res.Output), nil
		}}, nil
	},
}
