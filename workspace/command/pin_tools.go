package command

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// pin finds a tool and what it needs beside its program.
func (f *finder) pin(ctx context.Context, tool string) (Pin, error) {
	switch tool {
	case "go":
		return f.pinGo(ctx)
	case "npm", "node", "npx":
		return f.pinNode(tool)
	case "python3", "python":
		return f.pinPython(ctx, tool)
	case "cargo", "rustc":
		return f.pinRust(ctx, tool)
	}
	path, err := f.look(tool)
	if err != nil {
		return Pin{}, err
	}
	if !isSystem(path) {
		return Pin{}, fmt.Errorf("%s is at %s; an exact command may name a program of the system (%s) or, as ./NAME, of the folder", tool, path, strings.Join(system[:3], ", "))
	}
	return Pin{Tool: tool, Path: path, Inside: path}, nil
}

// place gives a directory its path in the sandbox: its own if the system's
// mounts show it there, else one that doesn't name the user.
func (p *Pin) place(host, inside string) string {
	if isSystem(host) {
		return host
	}
	p.Mounts = append(p.Mounts, Bind{Host: host, Inside: inside})
	return inside
}

// inside is where a path below a placed directory is.
func moved(path, host, at string) string {
	rel, err := filepath.Rel(host, path)
	if err != nil {
		return path
	}
	return filepath.Join(at, rel)
}

// helpers finds the tools that others call, at the same time, since each asks
// a program about itself.
func (f *finder) helpers(ctx context.Context) []Pin {
	names := []string{"go", "node", "python3", "cargo"}
	found := make([]*Pin, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() {
			if pin, err := f.pin(ctx, name); err == nil {
				found[i] = &pin
			}
		})
	}
	wg.Wait()
	var out []Pin
	for _, p := range found {
		if p != nil {
			out = append(out, *p)
		}
	}
	return out
}

func (f *finder) pinGo(ctx context.Context) (Pin, error) {
	path, err := f.look("go")
	if err != nil {
		return Pin{}, err
	}
	out, err := f.ask(ctx, path, []string{"GOTOOLCHAIN=local"}, "env", "-json", "GOROOT", "GOMODCACHE", "GOVERSION")
	if err != nil {
		return Pin{}, err
	}
	var env struct{ GOROOT, GOMODCACHE, GOVERSION string }
	if err := json.Unmarshal(out, &env); err != nil {
		return Pin{}, fmt.Errorf("go env: %w", err)
	}
	root, err := filepath.EvalSymlinks(env.GOROOT)
	if err != nil {
		return Pin{}, fmt.Errorf("GOROOT: %w", err)
	}
	if f.granted(root) {
		return Pin{}, fmt.Errorf("the Go toolchain lies inside a granted folder; narrow the grant")
	}
	p := Pin{Tool: "go", Path: filepath.Join(root, "bin", "go"), Version: env.GOVERSION}
	if _, err := os.Stat(p.Path); err != nil {
		p.Path = path // a distribution that keeps the program elsewhere
	}
	at := p.place(root, "/opt/go")
	p.Inside = moved(p.Path, root, at)
	p.Env = []string{"GOROOT=" + at}
	// A module cache inside a grant is left out: it would show denied files of
	// the grant unmasked. Vendored modules still work.
	if mods, err := filepath.EvalSymlinks(env.GOMODCACHE); err == nil && !f.granted(mods) {
		p.Mounts = append(p.Mounts, Bind{Host: mods, Inside: goModules})
	}
	return p, nil
}

// goModules is where the module cache of this machine is mounted.
const goModules = "/opt/gomod"

func (f *finder) pinNode(tool string) (Pin, error) {
	node, err := f.look("node")
	if err != nil {
		return Pin{}, err
	}
	prefix := filepath.Dir(filepath.Dir(node))
	p := Pin{Tool: tool, Path: node}
	at := p.place(prefix, "/opt/node")
	if f.granted(prefix) {
		return Pin{}, fmt.Errorf("node lies inside a granted folder; narrow the grant")
	}
	p.Inside = moved(node, prefix, at)
	if tool == "node" {
		return p, nil
	}
	script, err := f.look(tool)
	if err != nil {
		return Pin{}, err
	}
	p.Script = Bind{Host: script, Inside: moved(script, prefix, at)}
	if !within(script, prefix) {
		pkg := filepath.Dir(filepath.Dir(script)) // .../npm/bin/npm-cli.js
		p.Script.Inside = moved(script, pkg, p.place(pkg, "/opt/npm"))
	}
	return p, nil
}

func (f *finder) pinPython(ctx context.Context, tool string) (Pin, error) {
	path, err := f.look(tool)
	if err != nil {
		return Pin{}, err
	}
	// Version managers put a launcher script in PATH; the interpreter tells
	// where it really is.
	out, err := f.ask(ctx, path, nil, "-I", "-c", "import sys; print(sys.base_prefix); print(sys.version.split()[0]); print(getattr(sys,'_base_executable',sys.executable))")
	if err != nil {
		return Pin{}, err
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 3 {
		return Pin{}, fmt.Errorf("%s: unexpected answer about its prefix", tool)
	}
	prefix, err := filepath.EvalSymlinks(lines[0])
	if err != nil {
		return Pin{}, fmt.Errorf("%s: %w", tool, err)
	}
	exe, err := filepath.EvalSymlinks(lines[2])
	if err != nil {
		return Pin{}, fmt.Errorf("%s: %w", tool, err)
	}
	if f.granted(prefix) || f.granted(exe) {
		return Pin{}, fmt.Errorf("%s lies inside a granted folder; narrow the grant", tool)
	}
	p := Pin{Tool: tool, Path: exe, Version: lines[1]}
	at := p.place(prefix, "/opt/python")
	p.Inside = exe
	if within(exe, prefix) {
		p.Inside = moved(exe, prefix, at)
	}
	return p, nil
}

func (f *finder) pinRust(ctx context.Context, tool string) (Pin, error) {
	rustc, err := f.lookUnresolved("rustc")
	if err != nil {
		return Pin{}, err
	}
	out, err := f.ask(ctx, rustc, nil, "--print", "sysroot")
	if err != nil {
		return Pin{}, err
	}
	root, err := filepath.EvalSymlinks(strings.TrimSpace(string(out)))
	if err != nil {
		return Pin{}, fmt.Errorf("rust sysroot: %w", err)
	}
	if f.granted(root) {
		return Pin{}, fmt.Errorf("the Rust toolchain lies inside a granted folder; narrow the grant")
	}
	p := Pin{Tool: tool, Path: filepath.Join(root, "bin", tool)}
	if _, err := os.Stat(p.Path); err != nil {
		if p.Path, err = f.look(tool); err != nil {
			return Pin{}, err
		}
	}
	p.Inside = moved(p.Path, root, p.place(root, "/opt/rust"))
	home := os.Getenv("CARGO_HOME")
	if user, err := os.UserHomeDir(); home == "" && err == nil {
		home = filepath.Join(user, ".cargo")
	}
	if registry, err := filepath.EvalSymlinks(filepath.Join(home, "registry")); err == nil && !f.granted(registry) {
		p.Mounts = append(p.Mounts, Bind{Host: registry, Inside: cargoRegistry})
	}
	return p, nil
}

// cargoRegistry is where the crates of this machine are mounted: below
// CARGO_HOME in the cache, since cargo finds them nowhere else.
const cargoRegistry = "/cache/cargo/registry"

// lookUnresolved is look for launchers that decide by the name they are called
// by (rustup's proxies).
func (f *finder) lookUnresolved(name string) (string, error) {
	real, err := f.look(name)
	if err != nil {
		return "", err
	}
	for _, d := range f.dirs {
		c := filepath.Join(d, name)
		if r, err := filepath.EvalSymlinks(c); err == nil && r == real {
			return c, nil
		}
	}
	return real, nil
}

// ask runs a tool of this machine with fixed arguments, outside every grant.
// It happens when a grant is made, never for a call.
func (f *finder) ask(ctx context.Context, path string, env []string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = "/"
	cmd.Env = append([]string{"PATH=" + strings.Join(f.dirs, string(os.PathListSeparator)), "LANG=C.UTF-8"}, env...)
	for _, name := range []string{"HOME", "GOPATH", "GOMODCACHE", "GOROOT", "RUSTUP_HOME", "CARGO_HOME", "PYENV_ROOT", "PYENV_VERSION"} {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	cmd.WaitDelay = resolveTimeout
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("ask %s about itself: %w", filepath.Base(path), err)
	}
	if len(out) > 64<<10 {
		return nil, fmt.Errorf("ask %s about itself: answer of %d bytes", filepath.Base(path), len(out))
	}
	return out, nil
}
