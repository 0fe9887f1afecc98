// Package grant is the signed document that opens a workspace session: whose
// folders, which provider, what may be done in them, and until when.
//
// The requester signs it; the provider's handshake signs its digest, so both
// sides are bound to the same words. It carries no path of the requester's
// machine: roots have names, and the directories behind them stay in the
// requester's own store. Empty means nothing: a grant without roots, without
// commands or without an expiry gives no access and is refused here.
package grant

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/protocols/signed"
	"github.com/weftmesh/weft/protocols/strict"
	"github.com/weftmesh/weft/workspace"
)

// Version is the only version of the document so far.
const Version = 1

// Bounds of a grant. A session is a piece of work, not a standing door.
const (
	MaxRoots    = 16
	MaxCommands = 32
	MaxGlobs    = 64
	MaxArgs     = 64
	MaxArg      = 1024
	MaxTask     = 2000
	MaxLifetime = 30 * 24 * time.Hour
	// clockSkew is how far two machines' clocks may differ. Expiry on the
	// requester's side, where effects happen, has no such allowance.
	clockSkew = 2 * time.Minute
)

// Errors that callers tell apart. Each is wrapped with what was wrong.
var (
	ErrInvalid   = errors.New("invalid grant")
	ErrExpired   = errors.New("grant is expired")
	ErrAddressee = errors.New("grant is for another provider")
)

// Grant is the payload. Times are unix milliseconds.
type Grant struct {
	V         int                `json:"v"`
	Session   string             `json:"session"`
	Requester identity.PublicKey `json:"requester"`
	Provider  identity.PublicKey `json:"provider"`
	Roots     []Root             `json:"roots"`
	Commands  []Command          `json:"commands"`
	Limits    Limits             `json:"limits"`
	// Network lets granted commands reach the network.
	Network bool `json:"network"`
	// Unsandboxed lets commands run where no sandbox is available.
	Unsandboxed bool `json:"unsandboxed"`
	// PublishPaths says that paths may be shown outside the two parties.
	PublishPaths bool `json:"publishPaths"`
	// Task tells the provider what the work is, in the requester's words.
	// It is shown to the person on the other side, never fed to a model.
	Task string `json:"task"`
	// Deal names the market conversation this session carries out.
	Deal    string `json:"deal"`
	Issued  int64  `json:"issued"`
	Expires int64  `json:"expires"`
}

// Root is one granted folder, by name.
type Root struct {
	Name    string          `json:"name"`
	Rights  workspace.Right `json:"rights"`
	Include []string        `json:"include"`
	Exclude []string        `json:"exclude"`
}

// Command is one granted command: a profile by name, or an exact argv.
type Command struct {
	Profile string   `json:"profile"`
	Argv    []string `json:"argv"`
}

// Limits are the session's budgets. All are enforced by the requester.
type Limits struct {
	Calls      int64 `json:"calls"`
	ReadBytes  int64 `json:"readBytes"`
	WriteBytes int64 `json:"writeBytes"`
	// Rate is how many calls a minute are allowed over all tools; 0 means the
	// built-in rates per kind of tool.
	Rate int64 `json:"rate"`
}

// DefaultLimits are those of a session nobody tuned (reference: what a day of
// agent work needs, a runaway loop hits within minutes).
func DefaultLimits() Limits {
	return Limits{Calls: 20_000, ReadBytes: 256 << 20, WriteBytes: 64 << 20}
}

// NewSession makes a session id: 128 random bits in lower-case base32.
func NewSession() string {
	var b [16]byte
	rand.Read(b[:])
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:]))
}

var (
	sessionShape = regexp.MustCompile(`^[a-z2-7]{26}$`)
	nameShape    = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,62}[a-z0-9]$|^[a-z0-9]$`)
)

// ValidSession reports whether s has the shape of a session id.
func ValidSession(s string) bool { return sessionShape.MatchString(s) }

// ValidName reports whether s can name a root.
func ValidName(s string) bool { return nameShape.MatchString(s) && !strings.Contains(s, "..") }

// Sign checks g and makes the document.
func Sign(g Grant, key *identity.Key) (*signed.Document, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	if g.Requester != key.Public() {
		return nil, fmt.Errorf("%w: the requester is another key", ErrInvalid)
	}
	payload, err := strict.Marshal(g)
	if err != nil {
		return nil, fmt.Errorf("encode grant: %w", err)
	}
	return signed.Seal(signed.Grant, payload, key)
}

// Open reads a received document for the given provider at the given time.
// The order is fixed: size, decode, version and shape, addressee, time
// window, signer; signatures themselves were verified by signed.Open.
func Open(raw []byte, provider identity.PublicKey, now time.Time) (Grant, *signed.Document, error) {
	g, doc, err := Read(raw)
	if err != nil {
		return Grant{}, nil, err
	}
	if g.Provider != provider {
		return Grant{}, nil, ErrAddressee
	}
	if now.UnixMilli() >= g.Expires+clockSkew.Milliseconds() {
		return Grant{}, nil, ErrExpired
	}
	if now.Add(clockSkew).UnixMilli() < g.Issued {
		return Grant{}, nil, fmt.Errorf("%w: issued in the future; compare the two clocks (weft doctor)", ErrInvalid)
	}
	return g, doc, nil
}

// Read reads a document without asking who and when: for one's own store.
func Read(raw []byte) (Grant, *signed.Document, error) {
	doc, err := signed.Open(raw, signed.Grant)
	if err != nil {
		return Grant{}, nil, err
	}
	var g Grant
	if err := strict.Unmarshal(doc.Payload(), signed.MaxPayload, &g); err != nil {
		return Grant{}, nil, err
	}
	if err := g.check(); err != nil {
		return Grant{}, nil, err
	}
	if !doc.SignedBy(g.Requester) || len(doc.Signers()) != 1 {
		return Grant{}, nil, fmt.Errorf("%w: a grant is signed by its requester alone", signed.ErrSignature)
	}
	return g, doc, nil
}

// Digest is the hash both sides bind to, in hex.
func Digest(doc *signed.Document) string {
	d := doc.Digest()
	return hex.EncodeToString(d[:])
}

// Rights is what the grant allows in any of its roots.
func (g Grant) Rights() (all workspace.Right) {
	for _, r := range g.Roots {
		all |= r.Rights
	}
	if len(g.Commands) == 0 {
		all &^= workspace.Exec
	}
	return all
}

// ExpiresAt is Expires as a time.
func (g Grant) ExpiresAt() time.Time { return time.UnixMilli(g.Expires) }

func (g Grant) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
	}
	switch {
	case g.V != Version:
		return bad("version %d, this weft reads %d; update the older side", g.V, Version)
	case !ValidSession(g.Session):
		return bad("session id %q", g.Session)
	case g.Requester.IsZero() || g.Provider.IsZero():
		return bad("a party is missing")
	case g.Requester == g.Provider:
		return bad("requester and provider are the same key")
	case len(g.Roots) == 0 || len(g.Roots) > MaxRoots:
		return bad("%d roots, need 1 to %d", len(g.Roots), MaxRoots)
	case len(g.Commands) > MaxCommands:
		return bad("%d commands, the limit is %d", len(g.Commands), MaxCommands)
	case g.Limits.Calls <= 0 || g.Limits.ReadBytes <= 0 || g.Limits.WriteBytes < 0 || g.Limits.Rate < 0:
		return bad("a limit is missing or negative")
	case g.Expires <= g.Issued:
		return bad("expires before it starts")
	case g.Expires-g.Issued > MaxLifetime.Milliseconds():
		return bad("lifetime over %d days", int(MaxLifetime.Hours()/24))
	case len(g.Task) > MaxTask || !plain(g.Task):
		return bad("task is longer than %d bytes or has control characters", MaxTask)
	case len(g.Deal) > 128 || !plain(g.Deal):
		return bad("deal id")
	}
	seen := map[string]bool{}
	for _, r := range g.Roots {
		switch {
		case !ValidName(r.Name):
			return bad("root name %q: use lower-case letters, digits, dot, dash", r.Name)
		case seen[r.Name]:
			return bad("two roots named %q", r.Name)
		case !r.Rights.Has(workspace.Read):
			return bad("root %q without the read right", r.Name)
		case len(r.Include)+len(r.Exclude) > MaxGlobs:
			return bad("root %q has over %d globs", r.Name, MaxGlobs)
		}
		seen[r.Name] = true
		for _, glob := range append(append([]string{}, r.Include...), r.Exclude...) {
			if glob == "" || len(glob) > 256 || !plain(glob) {
				return bad("root %q has a bad glob", r.Name)
			}
		}
	}
	for _, c := range g.Commands {
		if (c.Profile == "") == (len(c.Argv) == 0) || len(c.Argv) > MaxArgs || len(c.Profile) > 64 {
			return bad("a command is a profile name or an exact argv")
		}
		for _, a := range c.Argv {
			if len(a) > MaxArg || !plain(a) {
				return bad("a command argument is too long or has control characters")
			}
		}
	}
	return nil
}

// plain reports whether s can be shown on a terminal as it is.
func plain(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r))
	})
}
