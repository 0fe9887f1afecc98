package requester

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/command"
	"github.com/weftmesh/weft/workspace/files"
	"github.com/weftmesh/weft/workspace/redact"
)

// folders are the shared folders while they are open: all zero before.
type folders struct {
	tree   *files.Tree
	runner *command.Runner // nil when no command is granted
	allow  []command.Allowed
}

func (f folders) close() {
	if f.runner != nil {
		f.runner.Close()
	}
	if f.tree != nil {
		f.tree.Close()
	}
}

// folders returns what openFolders opened.
func (s *Session) folders() folders {
	if f := s.open.Load(); f != nil {
		return *f
	}
	return folders{}
}

// openFolders opens the roots by handle, learns the secrets in them, and makes
// the command runner: all three or nothing. A new session that can't does not
// start, a kept one waits until Resume can. It does nothing the second time.
func (s *Session) openFolders() (err error) {
	s.openMu.Lock()
	defer s.openMu.Unlock()
	if s.open.Load() != nil {
		return nil
	}
	rules := files.DefaultRules().Reserve(s.cfg.Home)
	var specs []files.RootSpec
	for _, r := range s.grant.Roots {
		specs = append(specs, files.RootSpec{Name: r.Name, Dir: s.st.Dirs[r.Name], Rights: r.Rights, Include: r.Include, Exclude: r.Exclude})
	}
	var f folders
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	if f.tree, err = files.OpenTree(specs, rules); err != nil {
		return fmt.Errorf("open the shared folders: %w", err)
	}
	if err := s.learnSecrets(s.ctx, f.tree); err != nil {
		return err
	}
	for _, c := range s.grant.Commands {
		f.allow = append(f.allow, command.Allowed{Profile: c.Profile, Argv: c.Argv})
	}
	if len(f.allow) > 0 {
		if f.runner, err = s.newRunner(f, rules); err != nil {
			return fmt.Errorf("prepare the sandbox: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed { // nobody would close them
		return ErrState
	}
	if f.runner != nil {
		s.st.Pins = f.runner.Pins()
	}
	s.open.Store(&f)
	return nil
}

func (s *Session) newRunner(f folders, rules files.Rules) (*command.Runner, error) {
	var mounts []command.Mount
	for _, r := range s.grant.Roots {
		mounts = append(mounts, command.Mount{Name: r.Name, HostDir: f.tree.HostDir(r.Name), Writable: r.Rights.Has(workspace.Write)})
	}
	s.mu.Lock()
	pins := s.st.Pins
	s.mu.Unlock()
	return command.NewRunner(command.Config{
		Roots: mounts, StateDir: s.stateDir(), Allowed: f.allow, Pins: pins,
		Denied: s.denied, Secret: rules.Secret, Redact: s.secrets.Load,
		AllowNet: s.grant.Network, Unsandboxed: s.grant.Unsandboxed, Log: s.cfg.Log,
	})
}

// stateDir keeps the session's build cache and command logs while it lives.
func (s *Session) stateDir() string { return filepath.Join(s.cfg.StateDir, s.id) }

// cleanUp removes what commands of an ended session left in stateDir.
func (s *Session) cleanUp() {
	runner := s.folders().runner
	if runner == nil {
		return
	}
	runner.Close()
	if err := os.RemoveAll(s.stateDir()); err != nil {
		s.cfg.Log.Warn("the build cache of an ended session could not be removed", "session", s.id, "err", err)
	}
}

// learnSecrets reads what must not leave: again after each command, which may
// have made new secrets.
func (s *Session) learnSecrets(ctx context.Context, tree *files.Tree) error {
	found, err := tree.SecretValues(ctx)
	if err != nil {
		return fmt.Errorf("read the secrets to redact: %w", err)
	}
	known := make([]redact.Secret, 0, len(found))
	for _, v := range found {
		known = append(known, redact.Secret{Value: v.Value})
	}
	set := redact.New(known)
	s.secrets.Store(set)
	tree.SetRedactor(set)
	return nil
}

// secretsEvery is how old the knowledge of secrets may be when a call begins.
// Where looking takes long, in a very large tree, it is done less often, so
// that it never costs more than a twentieth of the time.
const secretsEvery = time.Second

// freshSecrets looks again for denied files and their values before a call, so
// that what the owner or a running command wrote since is redacted too.
func (s *Session) freshSecrets(ctx context.Context) error {
	s.secretsMu.Lock()
	defer s.secretsMu.Unlock()
	began := time.Now()
	if began.Sub(s.learnt) < max(secretsEvery, 20*s.learning) {
		return nil
	}
	err := s.rescan(ctx)
	s.learnt = time.Now()
	s.learning = s.learnt.Sub(began)
	return err
}

// rescan looks for what a command left: names that the gate must know, and
// secrets that must not leave.
func (s *Session) rescan(ctx context.Context) error {
	select {
	case <-s.over: // nothing leaves any more
		return nil
	default:
	}
	tree := s.folders().tree
	if err := tree.Rescan(ctx); err != nil {
		return err
	}
	return s.learnSecrets(ctx, tree)
}

// denied lists what a command must not see, in the sandbox's terms.
func (s *Session) denied(ctx context.Context) ([]command.DeniedPath, error) {
	found, err := s.folders().tree.Denied(ctx)
	if err != nil {
		return nil, err
	}
	var out []command.DeniedPath
	for _, d := range found {
		out = append(out, command.DeniedPath{Root: d.Root, Rel: d.Rel, Dir: d.Dir})
	}
	return out, nil
}
