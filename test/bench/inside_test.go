//go:build linux

package bench

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/protocols/session"
	"github.com/weftmesh/weft/protocols/signed"
	"github.com/weftmesh/weft/store"
	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/files"
	"github.com/weftmesh/weft/workspace/grant"
	"github.com/weftmesh/weft/workspace/provider"
	"github.com/weftmesh/weft/workspace/requester"
	"github.com/weftmesh/weft/workspace/sessionlog"
)

// readArgs is the call that BenchmarkInside makes.
var readArgs = object{"path": "work/" + readNames[small]}.json()

// BenchmarkInside takes the path of a call apart inside one process, without
// libp2p: two unix sockets, and both sides' stores in memory or on the disk.
// Its CPU column says what the steps cost:
//
//	channel alone     a signed call there and a result back over the session
//	                  channel, with nobody who looks at either
//	read alone        files.Tree.Read of the same file
//	requester alone   the channel and a real requester: verify, decode, gate,
//	                  intent, read, result, sign; the caller is the same as for
//	                  "channel alone", so gate + log + sign is what is left when
//	                  the two above are taken away
//	both sides        the requester and a real provider, as in two daemons
func BenchmarkInside(b *testing.B) {
	for name, home := range map[string]func(testing.TB) string{"memory": memoryDir, "disk": testing.TB.TempDir} {
		b.Run(name, func(b *testing.B) {
			dir := plant(b, b.TempDir(), nil)
			race{title: "4 KiB read_file inside one process, stores in " + name, against: []string{"channel alone"}, block: 100}.run(b, []contender{
				{name: "channel alone", op: channelAlone(b)},
				{name: "read alone", op: readAlone(b, dir)},
				{name: "requester alone", op: requesterAlone(b, home(b), dir)},
				{name: "both sides", op: bothSides(small)(b, home(b), dir)},
			})
		})
	}
}

// BenchmarkAlone is one of BenchmarkInside's contenders at a time, for
// profiles and allocations:
//
//	go test -run '^$' -bench Alone/requester/memory -cpuprofile cpu.out ./test/bench
func BenchmarkAlone(b *testing.B) {
	for side, make := range map[string]func(testing.TB, string, string) func(context.Context) error{
		"channel":   func(tb testing.TB, _, _ string) func(context.Context) error { return channelAlone(tb) },
		"requester": requesterAlone,
		"both":      bothSides(small),
		"megabyte":  bothSides(large),
	} {
		for name, home := range map[string]func(testing.TB) string{"memory": memoryDir, "disk": testing.TB.TempDir} {
			b.Run(side+"/"+name, func(b *testing.B) {
				op := make(b, home(b), plant(b, b.TempDir(), nil))
				b.ReportAllocs()
				before := cpu(0)
				for b.Loop() {
					if err := op(context.Background()); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64((cpu(0)-before).Microseconds())/float64(b.N), "cpu-us/op")
			})
		}
	}
}

// pipe is one end of a connected pair of sockets, as a session's stream.
type pipe struct{ net.Conn }

func (p pipe) Reset() error { return p.Close() }

// pipes connects two sockets.
func pipes(tb testing.TB) (a, b pipe) {
	tb.Helper()
	l, err := net.Listen("unix", filepath.Join(memoryDir(tb), "s"))
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	far, err := l.Accept()
	if err != nil {
		tb.Fatal(err)
	}
	return pipe{near}, pipe{far}
}

// attach runs two channels over a pair of sockets until the benchmark ends.
func attach(tb testing.TB, dial, answer *session.Channel) {
	tb.Helper()
	a, b := pipes(tb)
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { dial.Dial(ctx, a) })
	wg.Go(func() {
		if hello, err := session.ReadHello(ctx, b); err == nil {
			answer.Answer(ctx, b, hello)
		}
	})
	tb.Cleanup(func() {
		stop()
		wg.Wait()
	})
}

// sides are two identities and a grant between them.
type sides struct {
	req, prov *identity.Key
	grant     grant.Grant
	doc       *signed.Document
}

func newSides(tb testing.TB) sides {
	tb.Helper()
	s := sides{req: identity.Generate(), prov: identity.Generate()}
	now := time.Now()
	s.grant = grant.Grant{V: grant.Version, Session: grant.NewSession(), Requester: s.req.Public(), Provider: s.prov.Public(),
		Roots:  []grant.Root{{Name: "work", Rights: workspace.Read | workspace.Write}},
		Limits: grant.Limits{Calls: 10_000_000, ReadBytes: 1 << 40, WriteBytes: 1 << 40, Rate: 10_000_000},
		Issued: now.UnixMilli(), Expires: now.Add(time.Hour).UnixMilli()}
	var err error
	if s.doc, err = grant.Sign(s.grant, s.req); err != nil {
		tb.Fatal(err)
	}
	return s
}

func (s sides) channel(self *identity.Key, peer identity.PublicKey, role session.Role) *session.Channel {
	return session.New(session.Config{Role: role, Session: s.grant.Session, Grant: s.doc.Digest(), Self: self, Peer: peer})
}

// requester opens the session on the folder's side.
func (s sides) requester(tb testing.TB, home, dir string) *requester.Session {
	tb.Helper()
	db := openStore(tb, filepath.Join(home, "requester"))
	cfg := requester.Config{DB: db, Key: s.req, Log: slog.New(slog.DiscardHandler), Home: home, StateDir: filepath.Join(home, "state"), Now: time.Now}
	r, err := requester.Offer(context.Background(), cfg, s.doc, map[string]string{"work": dir})
	if err != nil {
		tb.Fatal(err)
	}
	r.Start()
	tb.Cleanup(func() { r.Close() })
	return r
}

func openStore(tb testing.TB, dir string) *store.DB {
	tb.Helper()
	db, err := store.Open(store.Options{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := db.Close(); err != nil {
			tb.Errorf("close a store: %v", err)
		}
	})
	return db
}

// puppet is a provider that signs calls and waits for their results, and does
// nothing else that a provider does.
type puppet struct {
	sides
	ch  *session.Channel
	seq uint64
}

// call makes one call and returns the result's body.
func (p *puppet) call(ctx context.Context, root string) ([]byte, error) {
	p.seq++
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	m, err := session.EncodeCall(session.Call{ID: id.String(), Seq: p.seq, Tool: "read_file", ArgsLen: len(readArgs), Root: root}, readArgs)
	if err != nil {
		return nil, err
	}
	if err := p.ch.Send(ctx, session.Sign(p.prov, p.grant.Session, m)); err != nil {
		return nil, err
	}
	for {
		d, err := p.ch.Receive(ctx)
		if err != nil {
			return nil, err
		}
		d.Done()
		if d.Kind == session.KindResult {
			return d.Body, nil
		}
	}
}

// emptyRoot is the root of a log without records (RFC 6962 section 2.1).
const emptyRoot = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// channelAlone answers every call with the same result.
func channelAlone(tb testing.TB) func(context.Context) error {
	s := newSides(tb)
	p := &puppet{sides: s, ch: s.channel(s.prov, s.req.Public(), session.Provider)}
	far := s.channel(s.req, s.prov.Public(), session.Requester)
	body := append([]byte("work/f4k.txt size=4096\n"), text[:small]...)
	m, err := session.EncodeResult(session.Result{Call: uuid.NewString(), Verdict: "ok", Kind: "text", Root: emptyRoot}, body)
	if err != nil {
		tb.Fatal(err)
	}
	m = session.Sign(s.req, s.grant.Session, m)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			d, err := far.Receive(context.Background())
			if err != nil {
				return
			}
			d.Done()
			if err := far.Send(context.Background(), m); err != nil {
				return
			}
		}
	})
	tb.Cleanup(func() {
		p.ch.Close()
		far.Close()
		wg.Wait()
	})
	attach(tb, p.ch, far)
	return func(ctx context.Context) error {
		got, err := p.call(ctx, emptyRoot)
		if err == nil && len(got) != len(body) {
			err = fmt.Errorf("%d bytes", len(got))
		}
		return err
	}
}

// readAlone is what the tool itself does.
func readAlone(tb testing.TB, dir string) func(context.Context) error {
	tree, err := files.OpenTree([]files.RootSpec{{Name: "work", Dir: dir, Rights: workspace.Read}}, files.DefaultRules())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { tree.Close() })
	path, refusal := workspace.ParsePath("work/" + readNames[small])
	if refusal != nil {
		tb.Fatal(refusal)
	}
	return func(ctx context.Context) error {
		got, err := tree.Read(ctx, files.ReadRequest{Path: path})
		if err != nil {
			return err
		}
		return same(got.Body, small)
	}
}

// requesterAlone is the channel with a real requester behind it. The puppet
// cosigns no checkpoint, so it must end before the requester loses patience
// with that, a minute after the first.
func requesterAlone(tb testing.TB, home, dir string) func(context.Context) error {
	s := newSides(tb)
	r := s.requester(tb, home, dir)
	p := &puppet{sides: s, ch: s.channel(s.prov, s.req.Public(), session.Provider)}
	tb.Cleanup(func() { p.ch.Close() })
	attach(tb, p.ch, r.Channel())
	sub, cert, err := sessionlog.Certify(s.prov, s.grant.Session, sessionlog.RoleProvider)
	if err != nil {
		tb.Fatal(err)
	}
	raw, err := cert.Encode()
	if err != nil {
		tb.Fatal(err)
	}
	key := sub.Public()
	m, err := session.EncodeJoined(session.Joined{LogKey: hex.EncodeToString(key[:]), Cert: raw, Root: emptyRoot})
	if err = errors.Join(err, p.ch.Send(context.Background(), m)); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if got := r.View().Totals.Calls; got != p.seq {
			tb.Errorf("%d calls were made, the log has %d", p.seq, got)
		}
	})
	return func(ctx context.Context) error {
		got, err := p.call(ctx, emptyRoot)
		if err != nil {
			return err
		}
		a, err := split(true, got)
		if err != nil {
			return err
		}
		return same(a.body, small)
	}
}

// bothSides is the requester with a real provider, and reads a file of some
// size.
func bothSides(size int) func(tb testing.TB, home, dir string) func(context.Context) error {
	return func(tb testing.TB, home, dir string) func(context.Context) error {
		s := newSides(tb)
		r := s.requester(tb, home, dir)
		cfg := provider.Config{DB: openStore(tb, filepath.Join(home, "provider")), Key: s.prov, Log: slog.New(slog.DiscardHandler), Now: time.Now}
		p, err := provider.Accept(context.Background(), cfg, s.doc.Raw())
		if err != nil {
			tb.Fatal(err)
		}
		p.Start()
		tb.Cleanup(func() { p.Close() })
		attach(tb, p.Channel(), r.Channel())
		w := &weft{Session: p}
		tb.Cleanup(func() {
			made := w.made.Load()
			if mine, theirs := r.View().Totals.Calls, p.View().Totals.Calls; mine != made || theirs != made {
				tb.Errorf("%d calls were made, the logs have %d and %d", made, mine, theirs)
			}
		})
		return reads(w, size)
	}
}
