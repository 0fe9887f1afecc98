package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Pin is a tool as it was found when the grant was made: outside every granted
// folder, symlinks resolved, with the hash of its program (case 55).
type Pin struct {
	// Tool is the name commands use, such as "go" or the argv[0] of an exact
	// grant.
	Tool string `json:"tool"`
	// Path is the program on this machine, SHA256 the hex hash of its bytes.
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	// Version is what the tool says of itself where we asked, for the owner.
	Version string `json:"version,omitzero"`
	// Inside is the program's path in the sandbox, Script a script that is its
	// first argument there (npm), both with their path on this machine above.
	Inside string `json:"inside"`
	Script Bind   `json:"script,omitzero"`
	// Mounts are further directories of this machine that it needs, read-only.
	Mounts []Bind `json:"mounts,omitzero"`
	// Env is the tool's own part of the environment, with paths in the sandbox.
	Env []string `json:"env,omitzero"`
}

// Bind is a directory or file of this machine at a path of the sandbox.
type Bind struct {
	Host   string `json:"host"`
	Inside string `json:"inside"`
}

// resolveTimeout bounds one question to a tool ("go env").
const resolveTimeout = 20 * time.Second

// Resolve finds the tools that the allowed entries need, outside every root.
// Call it when the grant is made and keep the result with the grant. The error
// names the first tool that is missing or lies inside a root, and what to do.
func Resolve(ctx context.Context, allowed []Allowed, roots []string) ([]Pin, error) {
	f, err := newFinder(roots)
	if err != nil {
		return nil, err
	}
	var pins []Pin
	for _, tool := range toolsOf(allowed) {
		pin, err := f.pin(ctx, tool)
		if err != nil {
			return nil, err
		}
		if pin.SHA256, err = hashFile(pin.Path); err != nil {
			return nil, fmt.Errorf("hash %s: %w", tool, err)
		}
		pins = append(pins, pin)
	}
	return pins, nil
}

// toolsOf lists the programs of the entries, each once. An exact argv that
// names a program by a relative path runs a file of the root and has no pin.
func toolsOf(allowed []Allowed) []string {
	var tools []string
	for _, a := range allowed {
		tool := ""
		if p, ok := Lookup(a.Profile); ok {
			tool = p.Tool
		} else if len(a.Argv) > 0 && !inRoot(a.Argv[0]) {
			tool = a.Argv[0]
		}
		if tool != "" && !slices.Contains(tools, tool) {
			tools = append(tools, tool)
		}
	}
	return tools
}

// inRoot reports whether an exact argv's program is a file of the root.
func inRoot(argv0 string) bool {
	return strings.Contains(argv0, "/") && !strings.HasPrefix(argv0, "/")
}

// system lists the directories that every sandbox has read-only at their own
// path.
var system = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

func isSystem(path string) bool {
	return slices.ContainsFunc(system, func(d string) bool { return within(path, d) })
}

// within reports whether path is dir or below it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// finder looks programs up in the directories of PATH that no grant reaches.
type finder struct {
	roots []string // resolved
	dirs  []string
}

func newFinder(roots []string) (*finder, error) {
	f := &finder{}
	for _, r := range roots {
		real, err := filepath.EvalSymlinks(r)
		if err != nil {
			return nil, fmt.Errorf("granted folder: %w", err)
		}
		f.roots = append(f.roots, real)
	}
	list := append(filepath.SplitList(os.Getenv("PATH")), "/usr/local/bin", "/usr/bin", "/bin", "/usr/local/go/bin")
	for _, d := range list {
		if !filepath.IsAbs(d) {
			continue // relative entries resolve inside whatever folder we are in
		}
		info, err := os.Stat(d)
		if err != nil || !info.IsDir() || info.Mode().Perm()&0o002 != 0 || f.granted(d) || slices.Contains(f.dirs, d) {
			continue
		}
		f.dirs = append(f.dirs, d)
	}
	return f, nil
}

// granted reports whether a path, as written or resolved, is inside a root.
func (f *finder) granted(path string) bool {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		real = path
	}
	return slices.ContainsFunc(f.roots, func(r string) bool { return within(path, r) || within(real, r) })
}

var errMissing = errors.New("not installed")

// look finds a program and resolves its symlinks.
func (f *finder) look(name string) (string, error) {
	candidates := []string{name}
	if !filepath.IsAbs(name) {
		candidates = nil
		for _, d := range f.dirs {
			candidates = append(candidates, filepath.Join(d, name))
		}
	}
	refused := false
	for _, c := range candidates {
		real, err := filepath.EvalSymlinks(c)
		if err != nil {
			continue
		}
		info, err := os.Stat(real)
		if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
			continue
		}
		if f.granted(real) || f.granted(c) {
			refused = true
			continue
		}
		return real, nil
	}
	if refused {
		return "", fmt.Errorf("%s lies inside a granted folder, where a session could replace it; install it elsewhere or narrow the grant", name)
	}
	return "", fmt.Errorf("%s is %w on this machine (looked in PATH outside the granted folders)", name, errMissing)
}

// hashFile is the hex SHA-256 of a file.
func hashFile(path string) (string, error) {
	in, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer in.Close()
	h := sha256.New()
	if _, err := io.Copy(h, in); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
