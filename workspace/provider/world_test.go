package provider_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/protocols/session"
	"github.com/weftmesh/weft/protocols/signed"
	"github.com/weftmesh/weft/store"
	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/gate"
	"github.com/weftmesh/weft/workspace/grant"
	"github.com/weftmesh/weft/workspace/provider"
	"github.com/weftmesh/weft/workspace/sessionlog"
)

// patience bounds every wait of these tests.
const patience = 30 * time.Second

// world is a real provider's session, and a requester that the test plays by
// hand over a real channel, with a real log of its own to be honest with.
type world struct {
	t      testing.TB
	db     *store.DB     // the provider's
	theirs *store.DB     // the requester's
	mine   *identity.Key // the provider's
	peer   *identity.Key // the requester's
	doc    *signed.Document
	grant  grant.Grant
	cfg    provider.Config
	s      *provider.Session
	ch     *session.Channel // the requester's end

	log    *sessionlog.Log
	key    sessionlog.Key
	sub    *identity.Key
	cert   sessionlog.KeyCert
	cursor uint64 // log records up to here were sent

	inbox   chan session.Message
	stop    context.CancelFunc
	wg      sync.WaitGroup // of the streams
	flights sync.WaitGroup // of the calls
}

// stream is a pipe end with Reset.
type stream struct{ net.Conn }

func (s stream) Reset() error { return s.Close() }

func openStore(t testing.TB) *store.DB {
	t.Helper()
	db, err := store.Open(store.Options{Dir: filepath.Join(t.TempDir(), "store")})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// newWorld is a session that was accepted and welcomed, its log opened.
func newWorld(t testing.TB) *world {
	t.Helper()
	w := newStranger(t)
	w.welcome(nil)
	w.wait(session.KindJoined)
	w.open()
	return w
}

// newStranger is a session that was accepted and heard nothing yet.
func newStranger(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, db: openStore(t), theirs: openStore(t), mine: identity.Generate(), peer: identity.Generate(),
		key: sessionlog.NewKey(), inbox: make(chan session.Message, 4096)}
	now := time.Now()
	g := grant.Grant{V: grant.Version, Session: grant.NewSession(), Requester: w.peer.Public(), Provider: w.mine.Public(),
		Roots:  []grant.Root{{Name: "app", Rights: workspace.Read | workspace.Write}},
		Limits: grant.DefaultLimits(), Issued: now.UnixMilli(), Expires: now.Add(time.Hour).UnixMilli()}
	var err error
	if w.doc, err = grant.Sign(g, w.peer); err != nil {
		t.Fatal(err)
	}
	w.grant = g
	w.cfg = provider.Config{DB: w.db, Key: w.mine, Log: slog.New(slog.DiscardHandler), Now: time.Now}
	if w.s, err = provider.Accept(t.Context(), w.cfg, w.doc.Raw()); err != nil {
		t.Fatal(err)
	}
	if w.log, err = sessionlog.Open(w.theirs, g.Session); err != nil {
		t.Fatal(err)
	}
	if w.sub, w.cert, err = sessionlog.Certify(w.peer, g.Session, sessionlog.RoleRequester); err != nil {
		t.Fatal(err)
	}
	w.s.Start()
	w.live()
	w.wait(session.KindJoined)
	t.Cleanup(w.close)
	return w
}

// live begins a new process life of the requester, and attaches it.
func (w *world) live() {
	w.ch = session.New(session.Config{Session: w.grant.Session, Grant: w.doc.Digest(), Self: w.peer, Peer: w.mine.Public(), Role: session.Requester})
	w.connect()
}

// connect attaches both ends to one pipe.
func (w *world) connect() {
	a, b := net.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	provider, requester := w.s.Channel(), w.ch
	w.wg.Go(func() { provider.Dial(ctx, stream{a}) })
	w.wg.Go(func() {
		hello, err := session.ReadHello(ctx, stream{b})
		if err == nil {
			requester.Answer(ctx, stream{b}, hello)
		}
	})
	w.wg.Go(func() {
		for {
			d, err := requester.Receive(ctx)
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

// disconnect ends the requester's process life.
func (w *world) disconnect() {
	w.stop()
	w.ch.Close()
	w.wg.Wait()
}

func (w *world) close() {
	w.disconnect()
	w.s.Close()
	w.flights.Wait()
	w.db.Close()
	w.theirs.Close()
}

// send queues a message and returns when the provider has dealt with it.
func (w *world) send(m session.Message, err error) {
	w.t.Helper()
	w.queue(m, err)
	w.settle()
}

// queue sends a message and does not wait.
func (w *world) queue(m session.Message, err error) {
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

// settle waits until the provider has dealt with everything that was sent.
func (w *world) settle() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	if err := w.ch.Drain(ctx); err != nil {
		w.t.Fatal(err)
	}
}

// sign signs a message as the requester.
func (w *world) sign(m session.Message, err error) session.Message {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	return session.Sign(w.peer, w.grant.Session, m)
}

// wait returns the next message of a kind.
func (w *world) wait(kind session.Kind) session.Message {
	w.t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		select {
		case m := <-w.inbox:
			if m.Kind == kind {
				return m
			}
		case <-timeout.C:
			w.t.Fatalf("no %s came", kind)
		}
	}
}

// came takes what has come so far, by kind.
func (w *world) came() map[session.Kind]int {
	got := map[session.Kind]int{}
	for {
		select {
		case m := <-w.inbox:
			got[m.Kind]++
		default:
			return got
		}
	}
}

// welcome sends the requester's welcome.
func (w *world) welcome(change func(*session.Welcome)) {
	w.t.Helper()
	cert, err := w.cert.Encode()
	if err != nil {
		w.t.Fatal(err)
	}
	h, pub := w.log.Head(), w.sub.Public()
	m := session.Welcome{LogKey: hex.EncodeToString(pub[:]), Cert: cert, Grant: grant.Digest(w.doc), Salt: w.key.Hex(),
		Size: h.Size, Root: rootHex(h), State: "open"}
	if change != nil {
		change(&m)
	}
	w.send(session.EncodeWelcome(m))
}

func rootHex(h sessionlog.Head) string { return hex.EncodeToString(h.Root[:]) }

// open writes and sends the log's first record.
func (w *world) open() {
	w.t.Helper()
	w.append(sessionlog.Record{Type: sessionlog.Opened, Time: time.Now().UnixMilli(), Note: "bubblewrap 0.8.0", Grant: grant.Digest(w.doc)})
	w.push()
}

// append writes honest records to the requester's log.
func (w *world) append(recs ...sessionlog.Record) sessionlog.Appended {
	w.t.Helper()
	out, err := w.log.Append(w.t.Context(), recs, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// unsent are the log's records that the provider was not sent, and the head.
func (w *world) unsent() (records []jsontext.Value, first uint64, head sessionlog.Head) {
	w.t.Helper()
	leaves, err := w.log.Leaves(w.cursor, 512)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, l := range leaves {
		records = append(records, l)
	}
	first, head = w.cursor, w.log.Head()
	w.cursor = head.Size
	return records, first, head
}

// recordsMessage carries the unsent records.
func (w *world) recordsMessage(change func(*session.Records)) session.Message {
	w.t.Helper()
	records, first, head := w.unsent()
	m := session.Records{Records: records, First: first, Size: head.Size, Root: rootHex(head)}
	if change != nil {
		change(&m)
	}
	return w.sign(session.EncodeRecords(m))
}

// push sends the unsent records.
func (w *world) push() {
	w.t.Helper()
	w.send(w.recordsMessage(nil), nil)
}

// flight is a call that a provider's agent made, and its message.
type flight struct {
	msg    session.Message
	call   session.Call
	done   chan struct{}
	result provider.Result
	err    error
}

// make makes a call on the provider's side and waits for its message.
func (w *world) call(tool, args string) *flight {
	w.t.Helper()
	return w.callWith(context.Background(), tool, args, nil)
}

func (w *world) callWith(ctx context.Context, tool, args string, progress func(uint64, string)) *flight {
	w.t.Helper()
	f := w.start(ctx, tool, args, progress)
	f.msg = w.wait(session.KindCall)
	var err error
	if f.call, err = session.DecodeCall(f.msg); err != nil {
		w.t.Fatal(err)
	}
	if err := session.Verify(w.mine.Public(), w.grant.Session, f.msg); err != nil {
		w.t.Fatal(err)
	}
	return f
}

// start makes a call and does not look at its message.
func (w *world) start(ctx context.Context, tool, args string, progress func(uint64, string)) *flight {
	f := &flight{done: make(chan struct{})}
	s := w.s
	w.flights.Go(func() {
		defer close(f.done)
		f.result, f.err = s.Call(ctx, tool, []byte(args), nil, progress)
	})
	return f
}

// end waits for a call's answer.
func (w *world) end(f *flight) (provider.Result, error) {
	w.t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case <-f.done:
	case <-timeout.C:
		w.t.Fatal("the call got no answer")
	}
	return f.result, f.err
}

// waits reports that a call has no answer.
func (f *flight) waits() bool {
	select {
	case <-f.done:
		return false
	default:
		return true
	}
}

// ran is the pair of records of a call that ran.
func (w *world) ran(f *flight, verdict sessionlog.Verdict, code, body string) []sessionlog.Record {
	return []sessionlog.Record{w.intent(f), w.outcome(f, verdict, code, body)}
}

func (w *world) intent(f *flight) sessionlog.Record {
	args := sha256.Sum256(f.msg.Body[:f.call.ArgsLen])
	return sessionlog.Record{Type: sessionlog.Call, Time: time.Now().UnixMilli(), Call: f.call.ID, Tool: f.call.Tool, Verdict: sessionlog.Allowed,
		Fill: w.key.Fill(sessionlog.Values{Path: []byte("app/a.txt"), Args: []byte(hex.EncodeToString(args[:])),
			Request: []byte(workspace.CallDigest(f.msg.Header, f.msg.Body, f.msg.Sig))})}
}

func (w *world) outcome(f *flight, verdict sessionlog.Verdict, code, body string) sessionlog.Record {
	sum := sha256.Sum256([]byte(body))
	return sessionlog.Record{Type: sessionlog.Result, Time: time.Now().UnixMilli(), Call: f.call.ID, Tool: f.call.Tool, Verdict: verdict, Code: code,
		Bytes: int64(len(body)), Fill: w.key.Fill(sessionlog.Values{Result: []byte(hex.EncodeToString(sum[:]))})}
}

// answer is the result message of a call, with the unsent records.
func (w *world) answer(f *flight, verdict, code, body string, change func(*session.Result)) session.Message {
	w.t.Helper()
	records, first, head := w.unsent()
	r := session.Result{Call: f.call.ID, Verdict: verdict, Code: code, Kind: "text", Records: records, First: first, Size: head.Size, Root: rootHex(head)}
	if change != nil {
		change(&r)
	}
	return w.sign(session.EncodeResult(r, []byte(body)))
}

// reply answers a call honestly.
func (w *world) reply(f *flight, body string) {
	w.t.Helper()
	w.append(w.ran(f, sessionlog.OK, "", body)...)
	w.send(w.answer(f, "ok", "", body, nil), nil)
	r, err := w.end(f)
	if err != nil || r.Verdict != "ok" || string(r.Body) != body {
		w.t.Fatalf("the honest answer came as %+v, %v", r, err)
	}
}

// works shows that the session goes on.
func (w *world) works() {
	w.t.Helper()
	w.reply(w.call("stat", `{"path":"app/a.txt"}`), fmt.Sprintf("app/a.txt call %d", w.log.Head().Size))
	w.same()
}

// same compares the replica with the requester's log.
func (w *world) same() {
	w.t.Helper()
	if mine, theirs := w.s.Log().Head(), w.log.Head(); mine != theirs {
		w.t.Fatalf("the replica has %d %x, the log %d %x", mine.Size, mine.Root[:4], theirs.Size, theirs.Root[:4])
	}
}

// forked shows that the session has ended on this side by the requester's
// contradiction, that the replica still is the honest prefix, that what was in
// flight has an answer, and that nothing more is signed.
func (w *world) forked(prefix sessionlog.Head, flights ...*flight) {
	w.t.Helper()
	if got := w.s.State(); got != gate.Aborted || !w.s.Forked() || !w.s.Settled() {
		w.t.Fatalf("the state is %s, forked %t", got, w.s.Forked())
	}
	if h := w.s.Log().Head(); h != prefix {
		w.t.Errorf("the replica has %d records, want the %d that were sound", h.Size, prefix.Size)
	}
	for _, f := range flights {
		r, err := w.end(f)
		if err != nil || r.Verdict != "denied" || r.Code != string(workspace.LogUnavailable) {
			w.t.Errorf("the call in flight got %+v, %v", r, err)
		}
	}
	if _, err := w.s.Call(w.t.Context(), "stat", []byte(`{}`), nil, nil); !errors.Is(err, provider.ErrOver) {
		w.t.Errorf("a call after the fork: %v", err)
	}
	w.wait(session.KindLeave)
	// Neither a checkpoint nor the end is signed any more.
	note, err := sessionlog.SignCheckpoint(w.sub, w.grant.Session, w.peer.Public(), w.s.Log().Head())
	if err != nil {
		w.t.Fatal(err)
	}
	w.send(session.EncodeCheckpoint(session.Checkpoint{Note: string(note)}))
	if got := w.came(); got[session.KindCosign] != 0 || got[session.KindClosed] != 0 {
		w.t.Errorf("after the fork came %v", got)
	}
	// A restart remembers.
	w.disconnect()
	if err := w.s.Close(); err != nil {
		w.t.Fatal(err)
	}
	var err2 error
	if w.s, err2 = provider.Load(w.cfg, w.grant.Session); err2 != nil {
		w.t.Fatal(err2)
	}
	if w.s.State() != gate.Aborted || !w.s.Forked() || w.s.Log().Head() != prefix {
		w.t.Errorf("after a restart: %s, forked %t, %d records", w.s.State(), w.s.Forked(), w.s.Log().Head().Size)
	}
}
