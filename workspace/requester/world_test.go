package requester_test

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/protocols/session"
	"github.com/weftmesh/weft/store"
	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/gate"
	"github.com/weftmesh/weft/workspace/grant"
	"github.com/weftmesh/weft/workspace/requester"
	"github.com/weftmesh/weft/workspace/sessionlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of these tests.
const patience = 20 * time.Second

// world is a real requester's session, and a provider that the test plays by
// hand over a real channel.
type world struct {
	t      testing.TB
	dir    string // the shared folder
	home   string
	db     *store.DB
	mine   *identity.Key
	theirs *identity.Key
	cfg    requester.Config
	s      *requester.Session
	ch     *session.Channel // the provider's end

	head  sessionlog.Head // newest head that was received
	seq   uint64
	inbox chan session.Message
	wg    sync.WaitGroup
	stop  context.CancelFunc

	skew atomic.Int64 // what the requester's clock is ahead, in nanoseconds
	asks atomic.Int64 // how often it was looked at
	hold atomic.Pointer[func()]
}

// stream is a pipe end with Reset.
type stream struct{ net.Conn }

func (s stream) Reset() error { return s.Close() }

// newWorld is a session that its provider has joined.
func newWorld(t testing.TB, change func(*grant.Grant)) *world {
	t.Helper()
	w := offered(t, change)
	w.connect()
	return w
}

// offered is a session that no provider has heard of.
func offered(t testing.TB, change func(*grant.Grant)) *world {
	t.Helper()
	w := &world{t: t, home: t.TempDir(), dir: t.TempDir(), mine: identity.Generate(), theirs: identity.Generate(), inbox: make(chan session.Message, 1024)}
	for name, content := range map[string]string{"a.txt": "alpha\n", ".env": "TOKEN=tk-92f8e1c7b3a64d50\n", "sub/b.txt": "beta\n"} {
		p := filepath.Join(w.dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if w.db, err = store.Open(store.Options{Dir: filepath.Join(w.home, "store")}); err != nil {
		t.Fatal(err)
	}
	w.cfg = requester.Config{DB: w.db, Key: w.mine, Log: slog.New(slog.DiscardHandler), Home: w.home, StateDir: filepath.Join(w.home, "sessions"), Now: w.now}
	now := time.Now()
	g := grant.Grant{V: grant.Version, Session: grant.NewSession(), Requester: w.mine.Public(), Provider: w.theirs.Public(),
		Roots:  []grant.Root{{Name: "app", Rights: workspace.Read | workspace.Write}},
		Limits: grant.DefaultLimits(), Issued: now.UnixMilli(), Expires: now.Add(time.Hour).UnixMilli()}
	g.Limits.Rate = 1_000_000
	if change != nil {
		change(&g)
	}
	doc, err := grant.Sign(g, w.mine)
	if err != nil {
		t.Fatal(err)
	}
	if w.s, err = requester.Offer(t.Context(), w.cfg, doc, map[string]string{"app": w.dir}); err != nil {
		t.Fatal(err)
	}
	w.ch = session.New(session.Config{Session: g.Session, Grant: doc.Digest(), Self: w.theirs, Peer: w.mine.Public(), Role: session.Provider})
	w.head = w.empty()
	w.s.Start()
	t.Cleanup(w.close)
	return w
}

// now is the requester's clock.
func (w *world) now() time.Time {
	w.asks.Add(1)
	if hold := w.hold.Load(); hold != nil {
		(*hold)()
	}
	return time.Now().Add(time.Duration(w.skew.Load()))
}

// connect attaches both ends to one pipe, reads what comes, and joins.
func (w *world) connect() {
	w.t.Helper()
	w.attach(true)
	w.join()
	w.wait(session.KindRecords)
}

// attach puts both ends on one pipe. A provider that doesn't read acknowledges
// nothing.
func (w *world) attach(read bool) {
	a, b := net.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	w.wg.Go(func() { w.ch.Dial(ctx, stream{a}) })
	w.wg.Go(func() {
		hello, err := session.ReadHello(ctx, stream{b})
		if err == nil {
			w.s.Channel().Answer(ctx, stream{b}, hello)
		}
	})
	if !read {
		return
	}
	w.wg.Go(func() {
		for {
			d, err := w.ch.Receive(ctx)
			if err != nil {
				return
			}
			d.Done()
			select {
			case w.inbox <- d.Message:
			case <-ctx.Done():
				return
			}
		}
	})
}

// join says that the provider holds the head it has.
func (w *world) join() {
	w.t.Helper()
	sub, cert, err := sessionlog.Certify(w.theirs, w.s.ID(), sessionlog.RoleProvider)
	if err != nil {
		w.t.Fatal(err)
	}
	raw, err := cert.Encode()
	if err != nil {
		w.t.Fatal(err)
	}
	pub := sub.Public()
	w.send(session.EncodeJoined(session.Joined{LogKey: hex.EncodeToString(pub[:]), Cert: raw, Size: w.head.Size, Root: hex.EncodeToString(w.head.Root[:])}))
}

// empty is the head of an empty log.
func (w *world) empty() sessionlog.Head {
	h, err := w.s.Log().HeadAt(0)
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

func (w *world) send(m session.Message, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	if err := w.ch.Send(ctx, m); err != nil {
		w.t.Fatal(err)
	}
}

// call makes a signed call message with the next number.
func (w *world) call(tool, args string, change func(*session.Call)) session.Message {
	w.t.Helper()
	w.seq++
	h := session.Call{ID: uuid.Must(uuid.NewV7()).String(), Seq: w.seq, Tool: tool, ArgsLen: len(args), Size: w.head.Size, Root: hex.EncodeToString(w.head.Root[:])}
	if change != nil {
		change(&h)
	}
	m, err := session.EncodeCall(h, []byte(args))
	if err != nil {
		w.t.Fatal(err)
	}
	return session.Sign(w.theirs, w.s.ID(), m)
}

// wait returns the next message of a kind and keeps the head that came.
func (w *world) wait(kind session.Kind) session.Message {
	w.t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		select {
		case m := <-w.inbox:
			w.learn(m)
			if m.Kind == kind {
				return m
			}
		case <-timeout.C:
			w.t.Fatalf("no %s came", kind)
		}
	}
}

func (w *world) learn(m session.Message) {
	var size uint64
	var root string
	switch m.Kind {
	case session.KindResult:
		r, err := session.DecodeResult(m)
		if err != nil {
			w.t.Fatal(err)
		}
		size, root = r.Size, r.Root
	case session.KindRecords:
		r, err := session.DecodeRecords(m)
		if err != nil {
			w.t.Fatal(err)
		}
		size, root = r.Size, r.Root
	default:
		return
	}
	raw, err := hex.DecodeString(root)
	if err != nil {
		w.t.Fatal(err)
	}
	w.head = sessionlog.Head{Size: size, Root: [32]byte(raw)}
}

// ask sends a call and returns its answer.
func (w *world) ask(m session.Message) (session.Result, string) {
	w.t.Helper()
	w.send(m, nil)
	c, err := session.DecodeCall(m)
	if err != nil {
		w.t.Fatal(err)
	}
	for {
		got := w.wait(session.KindResult)
		r, err := session.DecodeResult(got)
		if err != nil {
			w.t.Fatal(err)
		}
		if err := session.Verify(w.mine.Public(), w.s.ID(), got); err != nil {
			w.t.Fatal(err)
		}
		if r.Call == c.ID {
			return r, string(got.Body)
		}
	}
}

// records reads the whole log.
func (w *world) records() (out []sessionlog.Record) {
	w.t.Helper()
	leaves, err := w.s.Log().Leaves(0, int(w.s.Log().Head().Size))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, l := range leaves {
		r, err := sessionlog.Decode(l)
		if err != nil {
			w.t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// hexRoot is a root as messages carry it.
func hexRoot(h sessionlog.Head) string { return hex.EncodeToString(h.Root[:]) }

// state waits until the session is in a state.
func (w *world) state(want gate.State) {
	w.t.Helper()
	w.until("the state is "+string(want), func() bool { return w.s.View().State == want })
}

// until waits for a condition.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	tick := time.NewTicker(5 * time.Millisecond) // the log grows without a change of state
	defer tick.Stop()
	for {
		changed := w.s.Changed()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-timeout.C:
			w.t.Fatalf("waited until %s; the state is %s", what, w.s.View().State)
		}
	}
}

// disconnect cuts the stream and ends the provider's process life.
func (w *world) disconnect() {
	if w.stop != nil {
		w.stop()
	}
	w.ch.Close()
	w.wg.Wait()
}

func (w *world) close() {
	w.disconnect()
	w.s.Close()
	w.db.Close()
}
