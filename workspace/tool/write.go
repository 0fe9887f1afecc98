package tool

import (
	"context"
	"encoding/base64"
	"regexp"

	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/files"
	"github.com/weftmesh/weft/workspace/gate"
)

var sha256Shape = regexp.MustCompile(`^[0-9a-f]{64}$`)

// hash refuses what is not a hex SHA-256.
func hash(name, s string) *workspace.Refusal {
	if s != "" && !sha256Shape.MatchString(s) {
		return workspace.Refuse(workspace.BadArguments, "%s is not a sha256 in lower-case hex; take it from the first line of read_file or stat", name)
	}
	return nil
}

var writeFile = &Spec{
	Name: "write_file", Title: "Write a file", Right: workspace.Write, Class: gate.Writes, Destructive: true, BodyArg: "content",
	Description: "Creates a file (mode create fails if it exists) or replaces one whole (mode overwrite needs if_sha256 of the bytes you saw). The file is replaced in one step and keeps its mode bits. Use edit_file for changes.",
	Schema: schema("path content mode",
		str("path", pathWords),
		str("content", "the whole content"),
		enum("encoding", "base64 for bytes that are not text", "utf8", "base64"),
		enum("mode", "create or overwrite", "create", "overwrite"),
		str("if_sha256", "hash of the current content; required to overwrite"),
		boolean("executable", "set or clear the executable bits"),
		boolean("mkdirs", "make missing parent directories")),
	decode: func(args, content []byte) (Plan, *workspace.Refusal) {
		var a struct {
			Path       *string `json:"path"`
			Encoding   *string `json:"encoding"`
			Mode       string  `json:"mode"`
			IfSHA256   string  `json:"if_sha256"`
			Executable *bool   `json:"executable"`
			Mkdirs     bool    `json:"mkdirs"`
		}
		if r := arguments(args, &a); r != nil {
			return Plan{}, r
		}
		if r := firstOf(given("path", a.Path), oneOf("mode", a.Mode, "create", "overwrite"), oneOf("encoding", or(a.Encoding, "utf8"), "utf8", "base64"), hash("if_sha256", a.IfSHA256)); r != nil {
			return Plan{}, r
		}
		if a.Mode == "overwrite" && a.IfSHA256 == "" {
			return Plan{}, workspace.Refuse(workspace.BadArguments, "overwrite needs if_sha256, the hash of the content you saw; read_file shows it")
		}
		raw := or(a.Encoding, "utf8") == "base64"
		if raw {
			decoded, err := base64.StdEncoding.DecodeString(string(content))
			if err != nil {
				return Plan{}, workspace.Refuse(workspace.BadArguments, "content is not base64")
			}
			content = decoded
		}
		req := files.WriteRequest{Content: content, Raw: raw, Mode: a.Mode, IfSHA256: a.IfSHA256, Executable: a.Executable, Mkdirs: a.Mkdirs}
		return Plan{Uses: use(*a.Path, workspace.Write), Writes: int64(len(content)), Run: func(ctx context.Context, env *Env) (Output, error) {
			var err error
			if req.Path, err = mustPath(*a.Path); err != nil {
				return Output{}, err
			}
			res, err := env.Tree.Write(ctx, req)
			if err != nil {
				return Output{}, err
			}
			out := fromFiles(res.Output)
			out.Written, out.Changed = res.NewSize, []string{*a.Path}
			return out, nil
		}}, nil
	},
}

// maxEdits bounds the edits of one call, maxEdited the file they make.
const (
	maxEdits  = 100
	maxEdited = 4 << 20
)

var editFile = &Spec{
	Name: "edit_file", Title: "Edit a file", Right: workspace.Write, Class: gate.Writes, Destructive: true,
	Description: "Replaces exact text. Each old must occur exactly count times (once unless given), or use all; otherwise nothing is written. Write LF: line ends of the file are matched and kept, as are BOM and final newline. All edits apply in order, or none. The result is a unified diff.",
	Schema: schema("path edits",
		str("path", pathWords),
		`"edits":{"type":"array","minItems":1,"maxItems":100,"items":`+schema("old new",
			str("old", "exact text to find, tabs and spaces as they are"),
			str("new", "text to put there"),
			integer("count", "how often old must occur, 1 unless given", 1, 100000),
			boolean("all", "replace every occurrence"))+`}`,
		str("if_sha256", "refuse if the file is not this any more"),
		boolean("dry_run", "show the diff and write nothing")),
	decode: func(args, _ []byte) (Plan, *workspace.Refusal) {
		var a struct {
			Path  *string `json:"path"`
			Edits []struct {
				Old   text   `json:"old"`
				New   *text  `json:"new"`
				Count *whole `json:"count"`
				All   bool   `json:"all"`
			} `json:"edits"`
			IfSHA256 string `json:"if_sha256"`
			DryRun   bool   `json:"dry_run"`
		}
		if r := arguments(args, &a); r != nil {
			return Plan{}, r
		}
		if r := firstOf(given("path", a.Path), between("number of edits", whole(len(a.Edits)), 1, maxEdits), hash("if_sha256", a.IfSHA256)); r != nil {
			return Plan{}, r
		}
		req := files.EditRequest{IfSHA256: a.IfSHA256, DryRun: a.DryRun}
		var grows int64
		for _, e := range a.Edits {
			if e.Old == "" {
				return Plan{}, workspace.Refuse(workspace.BadArguments, "old is empty; to create a file use write_file")
			}
			if r := given("new", e.New); r != nil { // would delete old
				return Plan{}, r
			}
			if e.Count != nil && e.All {
				return Plan{}, workspace.Refuse(workspace.BadArguments, "count or all, not both")
			}
			if r := between("count", or(e.Count, 1), 1, 100_000); r != nil {
				return Plan{}, r
			}
			req.Edits = append(req.Edits, files.TextEdit{Old: string(e.Old), New: string(*e.New), Count: int(or(e.Count, 0)), All: e.All})
			grows += int64(len(*e.New))
		}
		return Plan{Uses: use(*a.Path, workspace.Write), Writes: min(grows, maxEdited), Run: func(ctx context.Context, env *Env) (Output, error) {
			var err error
			if req.Path, err = mustPath(*a.Path); err != nil {
				return Output{}, err
			}
			res, err := env.Tree.Edit(ctx, req)
			if err != nil {
				return Output{}, err
			}
			out := fromFiles(res.Output)
			if !a.DryRun {
				out.Written, out.Changed = res.NewSize, []string{*a.Path}
			}
			return out, nil
		}}, nil
	},
}
