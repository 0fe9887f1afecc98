package files

import (
	"bytes"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/config"
)

// gitConfigSize is the largest .git/config that is read.
const gitConfigSize = 256 << 10

// gitConfigured lists, folded and below the root, the in-tree files and
// directories that a repository's configuration executes or reads settings
// from: a hooks directory such as .husky, included files, attribute files.
// worktree is the path of the working tree with its slash, or "".
func gitConfigured(gitDir *pin, worktree string) []string {
	host := strings.TrimSuffix(gitDir.base.real, "/") + "/"
	var out []string
	for _, name := range []string{"config", "config.worktree"} {
		cfg := readGitConfig(gitDir, name)
		if cfg == nil {
			continue
		}
		for _, s := range cfg.Sections {
			for _, o := range append(s.Options, subsectionOptions(s)...) {
				v, value := "", o.Value
				rel, absolute := strings.CutPrefix(value, host)
				switch strings.ToLower(s.Name + "." + o.Key) {
				case "core.hookspath", "core.attributesfile", "core.excludesfile", "core.fsmonitor":
					v = path.Join(worktree, value)
				case "include.path", "includeif.path":
					// Relative to the file that includes.
					v = path.Join(worktree, ".git", value)
				}
				if v != "" && absolute {
					v = path.Clean(rel)
				}
				if v != "" && v != "." && (absolute || !path.IsAbs(value)) && v != ".." && !strings.HasPrefix(v, "../") {
					out = append(out, foldPath(v))
				}
			}
		}
	}
	return out
}

func subsectionOptions(s *config.Section) config.Options {
	var os config.Options
	for _, sub := range s.Subsections {
		os = append(os, sub.Options...)
	}
	return os
}

func readGitConfig(dir *pin, name string) *config.Config {
	b := readSmall(dir, name, gitConfigSize)
	if b == nil {
		return nil
	}
	cfg := config.New()
	if config.NewDecoder(bytes.NewReader(b)).Decode(cfg) != nil {
		return nil
	}
	return cfg
}

// readSmall reads a regular file of at most limit bytes below a pinned
// directory, or nothing.
func readSmall(dir *pin, name string, limit int64) []byte {
	p, err := dir.child(name)
	if err != nil {
		return nil
	}
	defer p.close()
	if !p.regular() || p.size > limit {
		return nil
	}
	f, err := p.open()
	if err != nil {
		return nil
	}
	defer f.close()
	b := make([]byte, p.size)
	n, _ := f.ReadAt(b, 0)
	return b[:n]
}
