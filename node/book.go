package node

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/store"
)

// Limits of the book. All of it is kept in memory too.
const (
	maxContacts = 4096
	maxNameLen  = 32  // runes
	maxAddrs    = 16  // a contact
	maxAddrLen  = 256 // bytes
	// maxWanted is how many contacts are kept connected: an idle node must
	// not hold hundreds of connections open. Sessions keep their own peer.
	maxWanted = 64
)

// Contact is a peer that the owner of this node added. Being one gives a peer
// no right; it has a name, addresses to try first, and is no stranger.
type Contact struct {
	ID identity.PublicKey `json:"id"`
	// Name is unique in the book, whatever the case of letters. It may be
	// empty.
	Name string `json:"name"`
	// Addrs are the multiaddrs that the owner gave, without /p2p/ID.
	Addrs []string `json:"addrs"`
	// Added is when.
	Added time.Time `json:"added"`
}

var (
	contacts = store.NewCollection[Contact]("contacts")
	// lastAddrs holds the addresses that worked, for every peer that the host
	// keeps. Bounded: the host keeps a bounded number of peers, and the rest
	// is dropped when a contact goes.
	lastAddrs = store.NewCollection[[]string]("last-addrs")
)

// Book holds the contacts, and the addresses that the host remembers.
type Book struct {
	db   *store.DB
	self identity.PublicKey

	writer sync.Mutex // one change at a time, over its store write; readers never wait for it

	mu sync.RWMutex // guards by
	by map[identity.PublicKey]Contact
}

func openBook(db *store.DB, self identity.PublicKey) (*Book, error) {
	b := &Book{db: db, self: self, by: map[identity.PublicKey]Contact{}}
	err := db.View(func(tx *store.Tx) error {
		return contacts.Each(tx, "", func(_ string, c Contact) error {
			b.by[c.ID] = c
			return nil
		})
	})
	return b, err
}

// Known reports whether the peer is a contact. It never waits for the disk.
func (b *Book) Known(p identity.PublicKey) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	_, ok := b.by[p]
	return ok
}

// Name is the contact's name, or "".
func (b *Book) Name(p identity.PublicKey) string {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.by[p].Name
}

// All lists the contacts: by name, the nameless last, by age.
func (b *Book) All() []Contact {
	b.mu.RLock()
	all := slices.Collect(maps.Values(b.by))
	b.mu.RUnlock()
	slices.SortFunc(all, func(x, y Contact) int {
		switch {
		case (x.Name == "") != (y.Name == ""):
			return strings.Compare(y.Name, x.Name)
		case x.Name != y.Name:
			return strings.Compare(strings.ToLower(x.Name), strings.ToLower(y.Name))
		case !x.Added.Equal(y.Added):
			return x.Added.Compare(y.Added)
		}
		return strings.Compare(string(x.ID.AgentID()), string(y.ID.AgentID()))
	})
	return all
}

// wanted are the contacts to stay connected to: the newest.
func (b *Book) wanted() []Contact {
	all := b.All()
	slices.SortStableFunc(all, func(x, y Contact) int { return y.Added.Compare(x.Added) })
	return all[:min(len(all), maxWanted)]
}

// Add adds a contact, or addresses and a name to one that is known.
func (b *Book) Add(ctx context.Context, p identity.PublicKey, name string, addrs []string) (Contact, error) {
	if p == b.self {
		return Contact{}, api.Errorf(api.Invalid, "that is this node itself").Try("give another peer's address or id")
	}
	return b.change(ctx, p, func(c Contact, known bool) (Contact, error) {
		if !known {
			if len(b.by) >= maxContacts {
				return c, api.Errorf(api.Limited, "there are %d contacts already, the limit", maxContacts).Try("weft peer rm one that you don't need")
			}
			c = Contact{ID: p, Added: time.Now().UTC().Truncate(time.Millisecond)}
		}
		if name != "" {
			if err := b.checkName(p, name); err != nil {
				return c, err
			}
			c.Name = name
		}
		// The newest addresses are tried first and the oldest go.
		all := append([]string{}, addrs...)
		for _, a := range c.Addrs {
			if !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
		c.Addrs = all[:min(len(all), maxAddrs)]
		return c, nil
	})
}

// Rename gives a contact a name, or takes it with "".
func (b *Book) Rename(ctx context.Context, p identity.PublicKey, name string) (Contact, error) {
	return b.change(ctx, p, func(c Contact, known bool) (Contact, error) {
		if !known {
			return c, notContact(p)
		}
		if name != "" {
			if err := b.checkName(p, name); err != nil {
				return c, err
			}
		}
		c.Name = name
		return c, nil
	})
}

// Remove forgets a contact and the addresses of it.
func (b *Book) Remove(ctx context.Context, p identity.PublicKey) (Contact, error) {
	b.writer.Lock()
	defer b.writer.Unlock()
	b.mu.RLock()
	c, known := b.by[p]
	b.mu.RUnlock()
	if !known {
		return c, notContact(p)
	}
	err := b.db.Update(ctx, func(tx *store.Tx) error {
		if err := lastAddrs.Delete(tx, bookKey(p)); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		return contacts.Delete(tx, bookKey(p))
	})
	if err != nil {
		return c, err
	}
	b.mu.Lock()
	delete(b.by, p)
	b.mu.Unlock()
	return c, nil
}

// change reads, decides and writes one contact. Writers run one at a time, so
// what fn saw still holds when it is written. fn runs with mu held.
func (b *Book) change(ctx context.Context, p identity.PublicKey, fn func(c Contact, known bool) (Contact, error)) (Contact, error) {
	b.writer.Lock()
	defer b.writer.Unlock()
	b.mu.RLock()
	c, known := b.by[p]
	next, err := fn(c, known)
	b.mu.RUnlock()
	if err != nil {
		return Contact{}, err
	}
	err = b.db.Update(ctx, func(tx *store.Tx) error { return contacts.Put(tx, bookKey(p), next) })
	if err != nil {
		return Contact{}, err
	}
	b.mu.Lock()
	b.by[p] = next
	b.mu.Unlock()
	return next, nil
}

// checkName says whether p may have the name. The caller holds mu.
func (b *Book) checkName(p identity.PublicKey, name string) error {
	bad := func(why string) error {
		return api.Errorf(api.Invalid, "name %q %s", name, why).
			Try("use 1 to %d letters, digits, '.', '_' or '-', starting with a letter or digit", maxNameLen)
	}
	if n := utf8.RuneCountInString(name); n > maxNameLen {
		return bad("is too long")
	}
	for i, r := range name {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) && (i == 0 || !strings.ContainsRune("._-", r)) {
			return bad("has a character that a name can't have")
		}
	}
	for _, c := range b.by {
		if c.ID != p && strings.EqualFold(c.Name, name) {
			return api.Errorf(api.Conflict, "the name %q is taken by %s", name, c.ID.PeerID()).
				Try("choose another name, or rename that one (weft peer name)")
		}
		for _, id := range spellings(c.ID) {
			if len(name) >= minPrefix && strings.HasPrefix(id, name) {
				return bad("is the beginning of a contact's id")
			}
		}
	}
	return nil
}

// Load returns the addresses to try for a peer: those that worked last, then
// those that the owner gave. It is the host's PeerBook.
func (b *Book) Load(p identity.PublicKey) ([]string, error) {
	var last []string
	err := b.db.View(func(tx *store.Tx) (err error) {
		last, err = lastAddrs.Get(tx, bookKey(p))
		return err
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, a := range b.by[p].Addrs {
		if !slices.Contains(last, a) {
			last = append(last, a)
		}
	}
	return last, nil
}

// saveWait bounds a Save: the host's goroutine must not hang on the disk.
const saveWait = 5 * time.Second

// Save remembers the addresses that worked for a peer, best first.
func (b *Book) Save(p identity.PublicKey, addrs []string) error {
	kept := make([]string, 0, maxAddrs)
	for _, a := range addrs {
		if len(a) <= maxAddrLen && len(kept) < maxAddrs {
			kept = append(kept, a)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveWait)
	defer cancel()
	return b.db.Update(ctx, func(tx *store.Tx) error {
		if old, err := lastAddrs.Get(tx, bookKey(p)); err == nil && slices.Equal(old, kept) {
			return nil
		}
		return lastAddrs.Put(tx, bookKey(p), kept)
	})
}

func bookKey(p identity.PublicKey) string { return string(p.AgentID()) }

func notContact(p identity.PublicKey) error {
	return api.Errorf(api.NotFound, "%s is not a contact", p.PeerID()).Try("weft peer list")
}
