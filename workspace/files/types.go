package files

import (
	"bytes"

	"github.com/weftmesh/weft/workspace"
)

// Redactor takes secrets out of bytes that are about to leave. Redact returns
// the redacted bytes and how many secrets it replaced; with none, out may be p
// itself. A replacement is a placeholder of the form [REDACTED] or
// [REDACTED:words]. It must be safe for concurrent use.
type Redactor interface {
	Redact(p []byte) (out []byte, n int)
}

// Kind says what a result's body is.
type Kind string

// The kinds of body.
const (
	Text   Kind = "text"   // UTF-8
	Image  Kind = "image"  // whole image file, MIME says which
	Binary Kind = "binary" // raw bytes, to be carried as base64
)

// Output is what every result has.
type Output struct {
	// Header is the compact first line of the result, without a line end.
	Header string
	// Kind is Text unless the caller read an image or asked for base64.
	Kind Kind
	// MIME is set with Image and Binary.
	MIME string
	// Body is what follows the header. For Binary these are raw bytes.
	Body []byte
	// Redacted counts the secrets that were replaced.
	Redacted int
	// Truncated says that there is more; the header says how to get it.
	Truncated bool
}

// Text is the header line and, for a text result, the body.
func (o Output) Text() []byte {
	var b bytes.Buffer
	b.Grow(len(o.Header) + 1 + len(o.Body))
	b.WriteString(o.Header)
	b.WriteByte('\n')
	if o.Kind == Text {
		b.Write(o.Body)
	}
	return b.Bytes()
}

// ReadRequest asks for a part of a file: lines, or bytes if Offset or Length
// is set.
type ReadRequest struct {
	Path workspace.Path
	// StartLine counts from 1, the default.
	StartLine int
	// MaxLines is 2000 by default and at most.
	MaxLines int
	// Offset and Length are in bytes of the file on disk. Length is 32 KiB by
	// default, 256 KiB at most.
	Offset, Length int64
	// Encoding is "auto" (default) or "base64", which returns raw bytes as Binary.
	Encoding string
	// Numbers puts the line number and a tab before each line.
	Numbers bool
	// MaxBytes is the budget of a text body: 32 KiB by default, 96 KiB at most.
	MaxBytes int
}

// ReadResult is a part of a file.
type ReadResult struct {
	Output
	Size int64
	// SHA256 is of the whole file, hex; empty above 8 MiB.
	SHA256 string
	// StartLine and EndLine are what the body shows (0-0 for none), TotalLines
	// is -1 if unknown. All are 0 for a byte range.
	StartLine, EndLine, TotalLines int
	// Offset and Length are the bytes of the file that the body covers.
	Offset, Length int64
	// EOL is lf, crlf, mixed or none.
	EOL string
	BOM bool
	// Next is the argument that continues a truncated read, as in
	// "start_line=201" or "offset=32768".
	Next string
}

// StatRequest asks what a path is.
type StatRequest struct{ Path workspace.Path }

// StatResult describes one object. A symbolic link is described, not followed.
type StatResult struct {
	Output
	// Type is file, dir, symlink, fifo, socket, device.
	Type string
	Size int64
	// Mode is the permission bits.
	Mode    uint32
	MtimeNS int64
	// SHA256 is set for files of at most 8 MiB, hex.
	SHA256 string
	// Target is the virtual path a link leads to, if that is inside the grant
	// and not denied; empty otherwise.
	Target string
	Nlink  uint64
	// Ignored says that git ignores it.
	Ignored bool
	// Writable says that the grant and the file system let the caller write it.
	Writable bool
}

// ListRequest asks for the entries of a directory.
type ListRequest struct {
	Path workspace.Path
	// Depth is 1 by default, 5 at most.
	Depth int
	// Limit is 500 by default, 1000 at most.
	Limit int
	// Cursor is the Next of the page before.
	Cursor string
	// IncludeIgnored also shows what .gitignore leaves out, and .git.
	IncludeIgnored bool
}

// Entry is one object of a listing.
type Entry struct {
	// Path is relative to the listed directory.
	Path string
	// Type is file, dir, symlink or special.
	Type string
	Size int64
}

// ListResult is one page, in the order of a depth-first walk by name.
type ListResult struct {
	Output
	Entries []Entry
	// Omitted counts entries that may not be shown, Ignored those that git ignores.
	Omitted, Ignored int
	Next             string
}

// GlobRequest asks for files by pattern.
type GlobRequest struct {
	// Pattern is a doublestar pattern relative to Path, as in "**/*.go".
	Pattern string
	Path    workspace.Path
	// Limit is 200 by default, 1000 at most.
	Limit int
	// Sort is "path" (default) or "mtime", newest first.
	Sort           string
	IncludeIgnored bool
}

// GlobResult lists files, each as a whole virtual path.
type GlobResult struct {
	Output
	Paths            []string
	Omitted, Ignored int
}

// GrepRequest searches the text of files.
type GrepRequest struct {
	// Pattern is a regular expression of RE2, matched against each line.
	Pattern string
	// Path is a file or a directory.
	Path workspace.Path
	// Glob narrows the files, as in "*.go" (any depth) or "src/**/*.ts".
	Glob string
	// Mode is "content" (default), "files" or "count".
	Mode string
	// Context is how many lines to show around each hit, 0 to 10.
	Context    int
	IgnoreCase bool
	// Multiline matches the pattern against the whole file.
	Multiline bool
	// Limit is how many hits (in mode files and count: files) to return, 200 by
	// default, 1000 at most.
	Limit          int
	IncludeIgnored bool
	// MaxBytes is the budget of the body: 32 KiB by default, 96 KiB at most.
	MaxBytes int
}

// GrepResult is what was found. The body has path:line:text for a hit and
// path-line-text for context; path in mode files; path:n in mode count.
type GrepResult struct {
	Output
	Hits, Files int
	// Searched counts the files that were searched, Skipped those that are
	// binary, too big or unreadable.
	Searched, Skipped int
	Omitted, Ignored  int
}

// WriteRequest stores a whole file.
type WriteRequest struct {
	Path workspace.Path
	// Content is the bytes to store, at most 1 MiB.
	Content []byte
	// Raw says that the content came as base64: it may hold any bytes.
	// Otherwise it must be UTF-8 and may not add U+FFFD.
	Raw bool
	// Mode is "create" or "overwrite". Create fails if the name exists.
	Mode string
	// IfSHA256 is the hash of the current bytes, hex; required by overwrite.
	IfSHA256 string
	// Executable sets or clears the x bits; nil leaves them (create: clear).
	Executable *bool
	// Mkdirs makes missing parent directories.
	Mkdirs bool
}

// WriteResult says what was stored.
type WriteResult struct {
	Output
	Created              bool
	OldSHA256, NewSHA256 string
	OldSize, NewSize     int64
	// Added and Removed count lines; both -1 if either side is binary.
	Added, Removed int
	// SeveredLinks counts the other names that still have the old bytes.
	SeveredLinks int
}

// TextEdit replaces text that occurs an exact number of times.
type TextEdit struct {
	Old, New string
	// Count is how often Old must occur, 1 by default.
	Count int
	// All replaces every occurrence, at least one.
	All bool
}

// EditRequest changes a file of at most 4 MiB by at most 100 edits, all or none.
type EditRequest struct {
	Path     workspace.Path
	Edits    []TextEdit
	IfSHA256 string
	DryRun   bool
}

// EditResult has the unified diff as its body.
type EditResult struct {
	Output
	OldSHA256, NewSHA256 string
	OldSize, NewSize     int64
	Added, Removed       int
	Replaced             int
	SeveredLinks         int
}

// Secret is a value that must not leave.
type Secret struct {
	// Source is the virtual path that holds it; never shown to the provider.
	Source string
	Value  []byte
}

// DeniedPath is a name that no tool may touch: the top of it, if a directory.
type DeniedPath struct {
	Root, Rel string
	Dir       bool
}

// RootSpec is one granted root.
type RootSpec struct {
	// Name is the first component of its virtual paths.
	Name string
	// Dir is the directory on this host.
	Dir    string
	Rights workspace.Right
	// Include, if any, are globs that a file must match; Exclude are globs that
	// take files and whole directories out. A glob without a slash matches at
	// any depth. A directory that matches stands for all below it.
	Include, Exclude []string
}
