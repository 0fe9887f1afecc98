package sessions

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/command"
	"github.com/weftmesh/weft/workspace/files"
	"github.com/weftmesh/weft/workspace/grant"
	"github.com/weftmesh/weft/workspace/requester"
)

// defaultLifetime is how long a session lasts when nobody said: a working day.
const defaultLifetime = 8 * time.Hour

// maxLive bounds the sessions that live at once on one node.
const maxLive = 64

// postShare signs a grant and begins to offer it.
func (d *Desk) postShare(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[ShareRequest](r)
	if err != nil {
		return err
	}
	s, err := d.share(r.Context(), in)
	if err != nil {
		return err
	}
	g := s.Grant()
	return api.Reply(w, Shared{
		SessionID: s.ID(), GrantHash: s.GrantHash(), Provider: string(g.Provider.PeerID()), Roots: roots(g), Commands: commands(g),
		Sandbox: s.View().Sandbox, ExpiresAt: g.ExpiresAt().UTC().Format(time.RFC3339), Limits: g.Limits,
	})
}

func (d *Desk) share(ctx context.Context, in ShareRequest) (*requester.Session, error) {
	live := 0
	d.mu.Lock()
	for _, r := range d.requested {
		if !r.View().State.Over() {
			live++
		}
	}
	d.mu.Unlock()
	if live >= maxLive {
		return nil, api.Errorf(api.Limited, "%d sessions are live, which is the most", live).Try("end some with weft stop ID (weft sessions lists them)")
	}
	with, err := d.cfg.Resolve(in.With)
	if err != nil {
		return nil, err
	}
	if with == d.cfg.Key.Public() {
		return nil, api.Errorf(api.Invalid, "that is this node itself").Try("give the other peer (weft peer list)")
	}
	if err := d.meet(ctx, with); err != nil {
		return nil, err
	}
	now := d.cfg.Now()
	g := grant.Grant{
		V: grant.Version, Session: grant.NewSession(), Requester: d.cfg.Key.Public(), Provider: with,
		Limits: grant.DefaultLimits(), Network: in.AllowNet, Unsandboxed: in.Unsandboxed, PublishPaths: in.PublishPaths,
		Task: in.Task, Issued: now.UnixMilli(), Expires: now.Add(defaultLifetime).UnixMilli(),
	}
	if in.Seconds < 0 || in.Calls < 0 || in.ReadBytes < 0 || in.WriteBytes < 0 || in.Rate < 0 {
		return nil, api.Errorf(api.Invalid, "a limit is negative").Try("weft share --help")
	}
	if in.Seconds > 0 {
		g.Expires = now.Add(time.Duration(in.Seconds) * time.Second).UnixMilli()
	}
	g.Limits.Calls = or(in.Calls, g.Limits.Calls)
	g.Limits.ReadBytes = or(in.ReadBytes, g.Limits.ReadBytes)
	g.Limits.WriteBytes = or(in.WriteBytes, g.Limits.WriteBytes)
	g.Limits.Rate = in.Rate
	dirs, err := d.grantRoots(&g, in)
	if err != nil {
		return nil, err
	}
	if err := grantCommands(&g, in); err != nil {
		return nil, err
	}
	doc, err := grant.Sign(g, d.cfg.Key)
	if err != nil {
		return nil, api.Errorf(api.Invalid, "%s", strings.TrimPrefix(err.Error(), grant.ErrInvalid.Error()+": ")).Try("weft share --help")
	}
	s, err := requester.Offer(ctx, d.requesterConfig(), doc, dirs)
	if err != nil {
		var refusal *workspace.Refusal
		if errors.As(err, &refusal) {
			return nil, api.Errorf(api.Denied, "%s", refusal.Hint).WithCode(string(refusal.Code)).Try("weft doctor")
		}
		if errors.Is(err, files.ErrPattern) {
			return nil, api.Errorf(api.Invalid, "%v", err).Try("weft share --help")
		}
		return nil, err
	}
	d.request(s)
	return s, nil
}

// meetPatience bounds the wait for a peer that the person never added.
const meetPatience = 10 * time.Second

// meet makes sure that a stranger exists and can be reached before anything is
// granted: an offer to a contact waits until they are there, one to a mistyped
// id would wait for ever.
func (d *Desk) meet(ctx context.Context, p identity.PublicKey) error {
	if d.cfg.Known(p) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, meetPatience)
	defer cancel()
	_, _, err := d.cfg.Host.Ping(ctx, p)
	return err
}

func or(v, def int64) int64 {
	if v == 0 {
		return def
	}
	return v
}

// grantRoots checks the folders and names them.
func (d *Desk) grantRoots(g *grant.Grant, in ShareRequest) (map[string]string, error) {
	if len(in.Roots) == 0 {
		return nil, api.Errorf(api.Invalid, "no folder to share").Try("weft share DIR --with PEER")
	}
	dirs := map[string]string{}
	for _, r := range in.Roots {
		dir, err := folder(r.Dir)
		if err != nil {
			return nil, err
		}
		if inside(dir, d.cfg.Home) || inside(d.cfg.Home, dir) {
			return nil, api.Errorf(api.Denied, "%s holds weft's own state, which is never shared", r.Dir).Try("share a folder beside it")
		}
		name := r.Name
		if name == "" {
			name = rootName(dir)
		}
		if !grant.ValidName(name) {
			return nil, api.Errorf(api.Invalid, "%q can't name a shared folder", name).Try("name it: weft share work=%s (lower-case letters, digits, dot, dash)", r.Dir)
		}
		if _, taken := dirs[name]; taken {
			return nil, api.Errorf(api.Invalid, "two folders are named %q", name).Try("name them: weft share a=DIR b=DIR")
		}
		rights := workspace.Read
		if !r.ReadOnly {
			if in.Write {
				rights |= workspace.Write
			}
			if in.Delete {
				rights |= workspace.Delete
			}
		}
		if len(in.Run) > 0 {
			rights |= workspace.Exec
		}
		dirs[name] = dir
		g.Roots = append(g.Roots, grant.Root{Name: name, Rights: rights, Include: in.Include, Exclude: in.Exclude})
	}
	return dirs, nil
}

// folder makes a folder's name absolute and free of links.
func folder(dir string) (string, error) {
	if dir == "" || !filepath.IsAbs(dir) {
		return "", api.Errorf(api.Invalid, "%q is not an absolute path", dir)
	}
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, os.ErrNotExist) {
		return "", api.Errorf(api.NotFound, "there is no folder %s", dir).Try("check the name, or make it with mkdir")
	}
	if err != nil {
		return "", fmt.Errorf("look at %s: %w", dir, err)
	}
	st, err := os.Stat(real)
	switch {
	case err != nil:
		return "", fmt.Errorf("look at %s: %w", dir, err)
	case !st.IsDir():
		return "", api.Errorf(api.Invalid, "%s is not a folder", dir).Try("share the folder that holds it, with --include %s", filepath.Base(dir))
	case real == string(filepath.Separator):
		return "", api.Errorf(api.Denied, "the whole file system is never shared").Try("share one folder of it")
	}
	return real, nil
}

// inside reports whether path is dir or below it. It only guards against a
// slip of the owner; the gate never relies on names.
func inside(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// rootName makes a name for a folder that nobody named.
func rootName(dir string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, filepath.Base(dir))
	name = strings.Trim(name, "-._")
	if name == "" {
		return "work"
	}
	return name[:min(len(name), 63)]
}

// grantCommands turns --run into granted commands.
func grantCommands(g *grant.Grant, in ShareRequest) error {
	for _, text := range in.Run {
		a, err := command.ParseAllowed(text)
		if err != nil {
			return api.Errorf(api.Invalid, "--run %q: %v", text, err).Try("weft profiles lists the profiles; an exact command goes in quotes")
		}
		g.Commands = append(g.Commands, grant.Command{Profile: a.Profile, Argv: a.Argv})
	}
	if p := command.Probe(); len(in.Run) > 0 && !p.Available && !in.Unsandboxed {
		return api.Errorf(api.Denied, "commands can't be granted: no sandbox on this machine (%s)", p.Reason).Try("%s, or share without --run", p.Fix)
	}
	return nil
}

func roots(g grant.Grant) (out []SharedRoot) {
	for _, r := range g.Roots {
		out = append(out, SharedRoot{Name: r.Name, Rights: r.Rights.String()})
	}
	return out
}

func commands(g grant.Grant) []string {
	out := []string{}
	for _, c := range g.Commands {
		out = append(out, command.Allowed{Profile: c.Profile, Argv: c.Argv}.String())
	}
	return out
}
