package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/store"
)

func openTestBook(t *testing.T, dir string, self identity.PublicKey) (*Book, *store.DB) {
	t.Helper()
	db, err := store.Open(store.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	b, err := openBook(db, self)
	if err != nil {
		t.Fatal(err)
	}
	return b, db
}

func keys(t *testing.T, n int) []identity.PublicKey {
	t.Helper()
	out := make([]identity.PublicKey, n)
	for i := range out {
		out[i] = identity.Generate().Public()
	}
	return out
}

func names(cs []Contact) (out []string) {
	for _, c := range cs {
		out = append(out, c.Name)
	}
	return out
}

func wantKind(t *testing.T, what string, err error, want api.Kind) {
	t.Helper()
	if e := api.From(err); e == nil || e.Kind != want || e.Hint == "" {
		t.Errorf("%s: %#v, want %v with a hint", what, e, want)
	}
}

func TestBook(t *testing.T) {
	t.Parallel()
	dir, ctx := t.TempDir(), t.Context()
	k := keys(t, 4)
	self, bob, carol, dave := k[0], k[1], k[2], k[3]
	b, db := openTestBook(t, dir, self)

	if b.Known(bob) || b.Name(bob) != "" || len(b.All()) != 0 {
		t.Error("a new book knows somebody")
	}
	if _, err := b.Add(ctx, bob, "Bob", []string{"/ip4/192.0.2.1/tcp/1"}); err != nil {
		t.Fatal(err)
	}
	c, err := b.Add(ctx, bob, "", []string{"/ip4/192.0.2.2/tcp/2"})
	if err != nil || c.Name != "Bob" || !slices.Equal(c.Addrs, []string{"/ip4/192.0.2.2/tcp/2", "/ip4/192.0.2.1/tcp/1"}) {
		t.Errorf("a second address: %+v, %v", c, err)
	}
	again, err := b.Add(ctx, bob, "", []string{"/ip4/192.0.2.1/tcp/1"})
	if err != nil || len(again.Addrs) != 2 || again.Added != c.Added {
		t.Errorf("the same address again: %+v, %v", again, err)
	}
	b.Add(ctx, carol, "alice-2", nil)
	b.Add(ctx, dave, "", nil)
	if got := names(b.All()); !slices.Equal(got, []string{"alice-2", "Bob", ""}) {
		t.Errorf("order %q", got)
	}

	_, err = b.Add(ctx, self, "me", nil)
	wantKind(t, "ourselves", err, api.Invalid)
	_, err = b.Add(ctx, dave, "bOB", nil)
	wantKind(t, "taken name", err, api.Conflict)
	_, err = b.Rename(ctx, dave, "Bob")
	wantKind(t, "taken name", err, api.Conflict)
	_, err = b.Rename(ctx, self, "x")
	wantKind(t, "not a contact", err, api.NotFound)
	_, err = b.Remove(ctx, self)
	wantKind(t, "not a contact", err, api.NotFound)
	if c, err := b.Rename(ctx, bob, "bob"); err != nil || c.Name != "bob" {
		t.Errorf("own name in another case: %+v, %v", c, err)
	}
	if c, err := b.Rename(ctx, carol, ""); err != nil || c.Name != "" {
		t.Errorf("no name: %+v, %v", c, err)
	}
	if _, err := b.Remove(ctx, dave); err != nil || b.Known(dave) {
		t.Errorf("remove: %v", err)
	}

	// What was acknowledged is there after the next start.
	before := b.All()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	b, _ = openTestBook(t, dir, self)
	if diff := cmp.Diff(before, b.All()); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
}

func TestContactNames(t *testing.T) {
	t.Parallel()
	k := keys(t, 3)
	b, _ := openTestBook(t, t.TempDir(), k[0])
	ctx := t.Context()
	if _, err := b.Add(ctx, k[1], "", nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"b", "bob", "Bob-2.home_x", "李雷", "é", "e\u0301", strings.Repeat("x", maxNameLen)} {
		if _, err := b.Rename(ctx, k[1], name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{" ", "bob smith", "-rf", ".hidden", "a/b", "a:b", "did:key:z", "a\nb", "a\x00", "\u202eevil", "\xff",
		strings.Repeat("x", maxNameLen+1), string(k[1].PeerID())[:20], string(k[1].AgentID())[:8]} {
		if _, err := b.Rename(ctx, k[1], name); err == nil {
			t.Errorf("%q was taken for a name", name)
		} else {
			wantKind(t, fmt.Sprintf("%q", name), err, api.Invalid)
		}
	}
}

func TestBookIsBounded(t *testing.T) {
	t.Parallel()
	k := keys(t, 2)
	b, _ := openTestBook(t, t.TempDir(), k[0])
	for i := range 3 * maxAddrs {
		c, err := b.Add(t.Context(), k[1], "", []string{fmt.Sprintf("/ip4/192.0.2.1/tcp/%d", i+1)})
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Addrs) > maxAddrs || c.Addrs[0] != fmt.Sprintf("/ip4/192.0.2.1/tcp/%d", i+1) {
			t.Fatalf("addresses %q", c.Addrs)
		}
	}
	b.mu.Lock()
	for i := range maxContacts { // ids that no key has: only the count matters
		b.by[identity.PublicKey{0: byte(i), 1: byte(i >> 8), 2: 1}] = Contact{}
	}
	b.mu.Unlock()
	_, err := b.Add(t.Context(), identity.Generate().Public(), "", nil)
	wantKind(t, "one too many", err, api.Limited)
	if got := len(b.wanted()); got != maxWanted {
		t.Errorf("%d contacts are kept connected, want %d", got, maxWanted)
	}
}

// A write that fails changes nothing, in memory neither.
func TestBookFullDisk(t *testing.T) {
	t.Parallel()
	k := keys(t, 3)
	b, db := openTestBook(t, t.TempDir(), k[0])
	ctx := t.Context()
	if _, err := b.Add(ctx, k[1], "bob", nil); err != nil {
		t.Fatal(err)
	}
	db.SetFault(func(string) error { return syscall.ENOSPC })
	_, err := b.Add(ctx, k[2], "carol", nil)
	if !errors.Is(err, store.ErrFull) {
		t.Errorf("add: %v", err)
	}
	if _, err := b.Rename(ctx, k[1], "rob"); err == nil {
		t.Error("renamed on a full disk")
	}
	if _, err := b.Remove(ctx, k[1]); err == nil {
		t.Error("removed on a full disk")
	}
	if b.Known(k[2]) || b.Name(k[1]) != "bob" {
		t.Error("memory and disk differ")
	}
	db.SetFault(nil)
	if _, err := b.Add(ctx, k[2], "carol", nil); err != nil {
		t.Errorf("after room was made: %v", err)
	}
}

// Two at once can't both have a name.
func TestBookConcurrentNames(t *testing.T) {
	t.Parallel()
	k := keys(t, 9)
	b, _ := openTestBook(t, t.TempDir(), k[0])
	var all sync.WaitGroup
	errs := make([]error, len(k))
	for i := 1; i < len(k); i++ {
		all.Go(func() { _, errs[i] = b.Add(t.Context(), k[i], "bob", nil) })
	}
	all.Wait()
	won := 0
	for i := 1; i < len(k); i++ {
		if errs[i] == nil {
			won++
		} else {
			wantKind(t, "lost the race", errs[i], api.Conflict)
		}
	}
	if won != 1 || len(b.All()) != 1 {
		t.Errorf("%d won, %d contacts", won, len(b.All()))
	}
}

func TestBookRemembersAddresses(t *testing.T) {
	t.Parallel()
	k := keys(t, 3)
	b, _ := openTestBook(t, t.TempDir(), k[0])
	bob, stranger := k[1], k[2]
	b.Add(t.Context(), bob, "", []string{"/ip4/192.0.2.1/tcp/1", "/ip4/192.0.2.1/tcp/2"})
	load := func(p identity.PublicKey, want ...string) {
		t.Helper()
		if got, err := b.Load(p); err != nil || !slices.Equal(got, want) {
			t.Errorf("Load = %q, %v; want %q", got, err, want)
		}
	}
	load(bob, "/ip4/192.0.2.1/tcp/1", "/ip4/192.0.2.1/tcp/2")
	load(stranger)
	if err := b.Save(bob, []string{"/ip4/192.0.2.1/tcp/2", strings.Repeat("x", maxAddrLen+1)}); err != nil {
		t.Fatal(err)
	}
	load(bob, "/ip4/192.0.2.1/tcp/2", "/ip4/192.0.2.1/tcp/1")
	if err := b.Save(stranger, make([]string, 3*maxAddrs)); err != nil {
		t.Fatal(err)
	}
	load(stranger, make([]string, maxAddrs)...)
	b.Remove(context.Background(), bob)
	load(bob)
}
