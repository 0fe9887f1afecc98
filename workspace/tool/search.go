package tool

import (
	"context"

	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/files"
)

// maxPattern bounds a search pattern, in bytes (reference case 82).
const maxPattern = 1 << 10

func pattern(name, s string) *workspace.Refusal {
	if s == "" || len(s) > maxPattern {
		return workspace.Refuse(workspace.BadArguments, "%s has %d bytes, allowed is 1 to %d", name, len(s), maxPattern)
	}
	return nil
}

var globFiles = &Spec{
	Name: "glob", Title: "Find files by name", Right: workspace.Read, ReadOnly: true, Idempotent: true,
	Description: "Finds files whose path matches a pattern such as **/*.go, below a path. .gitignore is respected unless include_ignored is set.",
	Schema: schema("pattern path",
		str("pattern", "doublestar pattern relative to path, such as **/*.go"),
		str("path", pathWords),
		integer("limit", "results to return, 200 unless given", 1, 1000),
		enum("sort", "order of the results", "path", "mtime"),
		boolean("include_ignored", "also find what .gitignore leaves out")),
	decode: func(args, _ []byte) (Plan, *workspace.Refusal) {
		var a struct {
			Pattern        string  `json:"pattern"`
			Path           *string `json:"path"`
			Limit          *whole  `json:"limit"`
			Sort           *string `json:"sort"`
			IncludeIgnored bool    `json:"include_ignored"`
		}
		if r := arguments(args, &a); r != nil {
			return Plan{}, r
		}
		if r := firstOf(given("path", a.Path), pattern("pattern", a.Pattern), between("limit", or(a.Limit, 200), 1, 1000),
			oneOf("sort", or(a.Sort, "path"), "path", "mtime")); r != nil {
			return Plan{}, r
		}
		return Plan{Uses: use(*a.Path, workspace.Read), Run: func(ctx context.Context, env *Env) (Output, error) {
			p, err := mustPath(*a.Path)
			if err != nil {
				return Output{}, err
			}
			res, err := env.Tree.Glob(ctx, files.GlobRequest{Pattern: a.Pattern, Path: p, Limit: int(or(a.Limit, 200)), Sort: or(a.Sort, "path"), IncludeIgnored: a.IncludeIgnored})
			if err != nil {
				return Output{}, err
			}
			return fromFiles(res.Output), nil
		}}, nil
	},
}

var grep = &Spec{
	Name: "grep", Title: "Search in files", Right: workspace.Read, ReadOnly: true, Idempotent: true,
	Description: "Searches the text of files with an RE2 regular expression. Mode content shows path:line:text, files the paths, count path:n. Binary files are skipped and counted.",
	Schema: schema("pattern path",
		str("pattern", "RE2 regular expression"),
		str("path", pathWords+"; a file or a directory"),
		str("glob", "only files that match, such as *.go"),
		enum("mode", "what to show, content unless given", "content", "files", "count"),
		integer("context", "lines around each hit", 0, 10),
		boolean("ignore_case", "match letters of either case"),
		boolean("multiline", "match against the whole file, so . can reach over lines with (?s)"),
		integer("limit", "hits to return, 200 unless given", 1, 1000),
		boolean("include_ignored", "also search what .gitignore leaves out"),
		integer("max_bytes", "budget of the shown text, 32768 unless given", 1024, 96<<10)),
	decode: func(args, _ []byte) (Plan, *workspace.Refusal) {
		var a struct {
			Pattern        string  `json:"pattern"`
			Path           *string `json:"path"`
			Glob           string  `json:"glob"`
			Mode           *string `json:"mode"`
			Context        whole   `json:"context"`
			IgnoreCase     bool    `json:"ignore_case"`
			Multiline      bool    `json:"multiline"`
			Limit          *whole  `json:"limit"`
			IncludeIgnored bool    `json:"include_ignored"`
			MaxBytes       *whole  `json:"max_bytes"`
		}
		if r := arguments(args, &a); r != nil {
			return Plan{}, r
		}
		if r := firstOf(given("path", a.Path), pattern("pattern", a.Pattern), between("context", a.Context, 0, 10),
			between("limit", or(a.Limit, 200), 1, 1000), between("glob length", whole(len(a.Glob)), 0, maxPattern),
			between("max_bytes", or(a.MaxBytes, 32<<10), 1024, 96<<10),
			oneOf("mode", or(a.Mode, "content"), "content", "files", "count")); r != nil {
			return Plan{}, r
		}
		return Plan{Uses: use(*a.Path, workspace.Read), Run: func(ctx context.Context, env *Env) (Output, error) {
			p, err := mustPath(*a.Path)
			if err != nil {
				return Output{}, err
			}
			res, err := env.Tree.Grep(ctx, files.GrepRequest{Pattern: a.Pattern, Path: p, Glob: a.Glob, Mode: or(a.Mode, "content"), Context: int(a.Context),
				IgnoreCase: a.IgnoreCase, Multiline: a.Multiline, Limit: int(or(a.Limit, 200)), IncludeIgnored: a.IncludeIgnored, MaxBytes: int(or(a.MaxBytes, 0))})
			if err != nil {
				return Output{}, err
			}
			return fromFiles(res.Output), nil
		}}, nil
	},
}
