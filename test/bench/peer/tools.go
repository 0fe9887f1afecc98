package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
)

// folder has the tools that the agent's trace uses, as simple as they can be:
// inside one directory by os.Root, with no limits, secrets or log.
type folder struct{ root *os.Root }

// args are the arguments of all tools, with weft's names.
type args struct {
	Path     string `json:"path"`
	Pattern  string `json:"pattern"`
	Offset   int64  `json:"offset"`
	Length   int64  `json:"length"`
	MaxBytes int64  `json:"max_bytes"`
	Edits    []struct {
		Old string `json:"old"`
		New string `json:"new"`
	} `json:"edits"`
}

func decode(raw []byte) (a args, err error) {
	err = json.Unmarshal(raw, &a)
	return a, err
}

func (f folder) info([]byte) (string, error) { return "work: read, write", nil }

func (f folder) read(raw []byte) (string, error) {
	a, err := decode(raw)
	if err != nil {
		return "", err
	}
	file, err := f.root.Open(a.Path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return "", err
	}
	n := st.Size() - a.Offset
	if a.Length > 0 {
		n = min(n, a.Length)
	}
	buf := make([]byte, max(n, 0))
	if _, err := file.ReadAt(buf, a.Offset); err != nil && err != io.EOF {
		return "", err
	}
	return string(buf), nil
}

func (f folder) stat(raw []byte) (string, error) {
	a, err := decode(raw)
	if err != nil {
		return "", err
	}
	st, err := f.root.Lstat(a.Path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s size=%d mode=%v mtime=%v", a.Path, st.Size(), st.Mode(), st.ModTime()), nil
}

func (f folder) list(raw []byte) (string, error) {
	a, err := decode(raw)
	if err != nil {
		return "", err
	}
	entries, err := fs.ReadDir(f.root.FS(), a.Path)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, e := range entries {
		st, err := e.Info()
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%s %d\n", e.Name(), st.Size())
	}
	return b.String(), nil
}

func (f folder) glob(raw []byte) (string, error) {
	a, err := decode(raw)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = fs.WalkDir(f.root.FS(), a.Path, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if ok, err := path.Match(path.Base(a.Pattern), d.Name()); err != nil || !ok {
			return err
		}
		b.WriteString(name + "\n")
		return nil
	})
	return b.String(), err
}

func (f folder) grep(raw []byte) (string, error) {
	a, err := decode(raw)
	if err != nil {
		return "", err
	}
	re, err := regexp.Compile(a.Pattern)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = fs.WalkDir(f.root.FS(), a.Path, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := f.root.ReadFile(name)
		if err != nil {
			return err
		}
		n := 0
		for line := range bytes.Lines(text) {
			if n++; re.Match(line) {
				fmt.Fprintf(&b, "%s:%d:%s", name, n, line)
			}
		}
		return nil
	})
	return b.String(), err
}

// edit replaces text and puts the new file in place of the old, whole or not
// at all.
func (f folder) edit(raw []byte) (string, error) {
	a, err := decode(raw)
	if err != nil {
		return "", err
	}
	text, err := f.root.ReadFile(a.Path)
	if err != nil {
		return "", err
	}
	var diff strings.Builder
	for _, e := range a.Edits {
		if n := bytes.Count(text, []byte(e.Old)); n != 1 {
			return "", fmt.Errorf("%q occurs %d times", e.Old, n)
		}
		text = bytes.Replace(text, []byte(e.Old), []byte(e.New), 1)
		fmt.Fprintf(&diff, "-%s\n+%s\n", e.Old, e.New)
	}
	temp := a.Path + ".new"
	if err := f.root.WriteFile(temp, text, 0o644); err != nil {
		return "", err
	}
	if err := f.root.Rename(temp, a.Path); err != nil {
		return "", err
	}
	return diff.String(), nil
}
