package provider_test

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/protocols/session"
	"github.com/weftmesh/weft/workspace/gate"
	"github.com/weftmesh/weft/workspace/grant"
	"github.com/weftmesh/weft/workspace/sessionlog"
)

func hexKey(p identity.PublicKey) string { return hex.EncodeToString(p[:]) }

// other is a second log of the same session, honestly made, with other
// records: what a requester would show to somebody else.
func (w *world) other(n int) *sessionlog.Log {
	w.t.Helper()
	db := openStore(w.t)
	w.t.Cleanup(func() { db.Close() })
	l, err := sessionlog.Open(db, w.grant.Session)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range n {
		rec := sessionlog.Record{Type: sessionlog.Path, Time: time.Now().UnixMilli(), Note: "another history"}
		if i == 0 {
			rec = sessionlog.Record{Type: sessionlog.Opened, Time: 1, Note: "another", Grant: grant.Digest(w.doc)}
		}
		if _, err := l.Append(w.t.Context(), []sessionlog.Record{rec}, nil); err != nil {
			w.t.Fatal(err)
		}
	}
	return l
}

func leaves(t testing.TB, l *sessionlog.Log, from uint64) (out []jsontext.Value) {
	t.Helper()
	all, err := l.Leaves(from, 512)
	if err != nil {
		t.Fatal(err)
	}
	for _, leaf := range all {
		out = append(out, leaf)
	}
	return out
}

// edit changes text in a record.
func edit(r jsontext.Value, old, new string) jsontext.Value {
	return jsontext.Value(strings.Replace(string(r), old, new, 1))
}

// TestForks: a requester that signs a log which contradicts what it signed
// before, breaks the log's own rules, or answers otherwise than it logs, ends
// the session on this side. The replica never holds a wrong leaf, and a call in
// flight gets an answer (reference case 71).
func TestForks(t *testing.T) {
	t.Parallel()
	// Each attack gets a session with one finished and one open call, and sends
	// what it likes. It returns the head that the replica may have afterwards.
	for name, attack := range map[string]func(w *world, f *flight) sessionlog.Head{
		"a root that doesn't match": func(w *world, f *flight) sessionlog.Head {
			before := w.log.Head()
			w.append(w.ran(f, sessionlog.OK, "", "x")...)
			w.send(w.answer(f, "ok", "", "x", func(r *session.Result) { r.Root = strings.Repeat("ab", 32) }), nil)
			return before
		},
		"a size that doesn't match": func(w *world, f *flight) sessionlog.Head {
			before := w.log.Head()
			w.append(w.ran(f, sessionlog.OK, "", "x")...)
			w.send(w.answer(f, "ok", "", "x", func(r *session.Result) { r.Size++ }), nil)
			return before
		},
		"no records and another root": func(w *world, f *flight) sessionlog.Head {
			before := w.log.Head()
			w.send(w.answer(f, "ok", "", "x", func(r *session.Result) { r.Root = strings.Repeat("ab", 32) }), nil)
			return before
		},
		"a changed record under the old root": func(w *world, f *flight) sessionlog.Head {
			before := w.log.Head()
			w.append(w.ran(f, sessionlog.OK, "", "x")...)
			w.send(w.answer(f, "ok", "", "x", func(r *session.Result) { r.Records[1] = edit(r.Records[1], `"bytes":1`, `"bytes":2`) }), nil)
			return before
		},
		"another history of the same length": func(w *world, _ *flight) sessionlog.Head {
			before := w.log.Head()
			l := w.other(int(before.Size))
			h := l.Head()
			w.send(w.sign(session.EncodeRecords(session.Records{Records: leaves(w.t, l, 0), Size: h.Size, Root: rootHex(h)})), nil)
			return before
		},
		"another history, longer": func(w *world, _ *flight) sessionlog.Head {
			before := w.log.Head()
			l := w.other(int(before.Size) + 4)
			h := l.Head()
			w.send(w.sign(session.EncodeRecords(session.Records{Records: leaves(w.t, l, 0), Size: h.Size, Root: rootHex(h)})), nil)
			return before
		},
		"another history's continuation": func(w *world, _ *flight) sessionlog.Head {
			before := w.log.Head()
			l := w.other(int(before.Size) + 4)
			h := l.Head()
			w.send(w.sign(session.EncodeRecords(session.Records{Records: leaves(w.t, l, before.Size), First: before.Size, Size: h.Size, Root: rootHex(h)})), nil)
			return before
		},
		"history rewritten": func(w *world, _ *flight) sessionlog.Head {
			before := w.log.Head()
			all := leaves(w.t, w.log, 0)
			all[1] = edit(all[1], `"time":`, `"time":1`)
			w.send(w.sign(session.EncodeRecords(session.Records{Records: all, Size: before.Size, Root: rootHex(before)})), nil)
			return before
		},
		"a record twice in one message": func(w *world, f *flight) sessionlog.Head {
			before := w.log.Head()
			w.append(w.ran(f, sessionlog.OK, "", "x")...)
			w.send(w.recordsMessage(func(r *session.Records) { r.Records[1] = r.Records[0] }), nil)
			return before
		},
		"records in another order": func(w *world, f *flight) sessionlog.Head {
			before := w.log.Head()
			w.append(w.ran(f, sessionlog.OK, "", "x")...)
			w.send(w.recordsMessage(func(r *session.Records) { r.Records[0], r.Records[1] = r.Records[1], r.Records[0] }), nil)
			return before
		},
		"a record left out in the middle": func(w *world, f *flight) sessionlog.Head {
			before := w.log.Head()
			w.append(append(w.ran(f, sessionlog.OK, "", "x"), sessionlog.Record{Type: sessionlog.Path, Note: "relay"})...)
			w.send(w.recordsMessage(func(r *session.Records) { r.Records = append(r.Records[:1], r.Records[2:]...) }), nil)
			return before
		},
		"a record that isn't one": func(w *world, f *flight) sessionlog.Head {
			before := w.log.Head()
			w.append(w.ran(f, sessionlog.OK, "", "x")...)
			w.send(w.recordsMessage(func(r *session.Records) { r.Records[0] = jsontext.Value(`{"v":1}`) }), nil)
			return before
		},
		"a record with a path in it": func(w *world, f *flight) sessionlog.Head {
			before := w.log.Head()
			w.append(w.ran(f, sessionlog.OK, "", "x")...)
			w.send(w.recordsMessage(func(r *session.Records) { r.Records[0] = edit(r.Records[0], `"tool":`, `"file":"/etc/passwd","tool":`) }), nil)
			return before
		},
		"a record of another session": func(w *world, f *flight) sessionlog.Head {
			before := w.log.Head()
			w.append(w.ran(f, sessionlog.OK, "", "x")...)
			w.send(w.recordsMessage(func(r *session.Records) { r.Records[0] = edit(r.Records[0], w.grant.Session, grant.NewSession()) }), nil)
			return before
		},
		"the session opened twice": func(w *world, _ *flight) sessionlog.Head {
			before := w.log.Head()
			first := edit(leaves(w.t, w.log, 0)[0], `"seq":0`, `"seq":3`)
			w.send(w.sign(session.EncodeRecords(session.Records{Records: []jsontext.Value{first}, First: 3, Size: 4, Root: strings.Repeat("ab", 32)})), nil)
			return before
		},
		"a checkpoint of another log": func(w *world, _ *flight) sessionlog.Head {
			l := w.other(int(w.log.Head().Size))
			w.checkpoint(l.Head())
			return w.log.Head()
		},
		"a checkpoint of another beginning": func(w *world, _ *flight) sessionlog.Head {
			w.checkpoint(w.other(1).Head())
			return w.log.Head()
		},
		"an answer without a record": func(w *world, f *flight) sessionlog.Head {
			w.send(w.answer(f, "ok", "", "unlogged", nil), nil)
			return w.log.Head()
		},
		"an answer whose call has no end in the log": func(w *world, f *flight) sessionlog.Head {
			w.append(w.intent(f))
			w.send(w.answer(f, "ok", "", "half logged", nil), nil)
			return w.log.Head()
		},
		"a refusal without a record": func(w *world, f *flight) sessionlog.Head {
			w.send(w.answer(f, "denied", "secret_path", "DENIED secret_path", nil), nil)
			return w.log.Head()
		},
		"other bytes than the log commits to": func(w *world, f *flight) sessionlog.Head {
			w.append(w.ran(f, sessionlog.OK, "", "what the log says")...)
			w.send(w.answer(f, "ok", "", "what the agent gets", nil), nil)
			return w.log.Head()
		},
		"another verdict than the log's": func(w *world, f *flight) sessionlog.Head {
			w.append(w.ran(f, sessionlog.Failed, "not_found", "x")...)
			w.send(w.answer(f, "ok", "", "x", nil), nil)
			return w.log.Head()
		},
		"another code than the log's": func(w *world, f *flight) sessionlog.Head {
			w.append(w.ran(f, sessionlog.Failed, "not_found", "x")...)
			w.send(w.answer(f, "failed", "exists", "x", nil), nil)
			return w.log.Head()
		},
		"a log of another call than the one that was made": func(w *world, f *flight) sessionlog.Head {
			rec := w.intent(f)
			rec.Fill = w.key.Fill(sessionlog.Values{Path: []byte("app/.env"), Args: []byte("other"), Request: []byte(strings.Repeat("0", 64))})
			w.append(rec)
			w.send(w.recordsMessage(nil), nil)
			return w.log.Head()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.works()
			f := w.call("read_file", `{"path":"app/a.txt"}`)
			head := attack(w, f)
			w.forked(head, f)
		})
	}
}

// checkpoint sends a signed checkpoint of a head.
func (w *world) checkpoint(h sessionlog.Head) {
	w.t.Helper()
	note, err := sessionlog.SignCheckpoint(w.sub, w.grant.Session, w.peer.Public(), h)
	if err != nil {
		w.t.Fatal(err)
	}
	w.send(session.EncodeCheckpoint(session.Checkpoint{Note: string(note)}))
}

// TestRulesOfTheLog: records that the log's own rules forbid, correctly hashed.
// The requester's own Log refuses to make them, so they are made here.
func TestRulesOfTheLog(t *testing.T) {
	t.Parallel()
	id := uuid.NewString()
	for name, recs := range map[string][]string{
		"a result without a call":      {`"type":"result","call":"` + id + `","tool":"stat","verdict":"ok"`},
		"one call allowed twice":       {`"type":"call","call":"` + id + `","tool":"stat","verdict":"allowed"`, `"type":"call","call":"` + id + `","tool":"stat","verdict":"allowed"`},
		"two results":                  {`"type":"call","call":"` + id + `","tool":"stat","verdict":"allowed"`, `"type":"result","call":"` + id + `","tool":"stat","verdict":"ok"`, `"type":"result","call":"` + id + `","tool":"stat","verdict":"failed","code":"not_found"`},
		"the end twice":                {`"type":"closed"`, `"type":"killed"`},
		"a call after the end":         {`"type":"closed"`, `"type":"call","call":"` + id + `","tool":"stat","verdict":"allowed"`},
		"a pause after the end":        {`"type":"killed"`, `"type":"paused"`},
		"a result of another tool":     {`"type":"call","call":"` + id + `","tool":"stat","verdict":"allowed"`, `"type":"result","call":"` + id + `","tool":"grep","verdict":"ok"`},
		"a type that doesn't exist":    {`"type":"prompt"`},
		"a verdict that doesn't exist": {`"type":"call","call":"` + id + `","tool":"stat","verdict":"maybe"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			f := w.call("read_file", `{"path":"app/a.txt"}`)
			head := w.log.Head()
			var out []jsontext.Value
			for i, r := range recs {
				out = append(out, jsontext.Value(`{"v":1,"seq":`+string(rune('1'+i))+`,"session":"`+w.grant.Session+`","time":1,`+r+`}`))
			}
			h := sessionlog.Head{Size: 1 + uint64(len(out)), Root: rootOf(t, append(leaves(t, w.log, 0), out...))}
			w.send(w.sign(session.EncodeRecords(session.Records{Records: out, First: 1, Size: h.Size, Root: rootHex(h)})), nil)
			w.forked(head, f)
		})
	}
}

// TestGaps: records that skip some are not taken; this side says what it has,
// and goes on from there when the rest comes, in whatever order and however
// often (reference case 67).
func TestGaps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var msgs []session.Message
	for range 4 {
		w.append(sessionlog.Record{Type: sessionlog.Path, Note: "relay"})
		msgs = append(msgs, w.recordsMessage(nil))
	}
	w.came()
	for _, i := range []int{3, 2, 1} {
		w.send(msgs[i], nil)
		j, err := session.DecodeJoined(w.wait(session.KindJoined))
		if err != nil {
			t.Fatal(err)
		}
		if j.Size != 1 {
			t.Errorf("it says that it has %d records", j.Size)
		}
	}
	if w.s.State() != gate.Open || w.s.Log().Head().Size != 1 {
		t.Fatalf("the state is %s with %d records", w.s.State(), w.s.Log().Head().Size)
	}
	for _, i := range []int{0, 0, 1, 0, 2, 1, 3, 3, 0} {
		w.send(msgs[i], nil)
	}
	w.same()

	// A backlog that overlaps what is here.
	w.append(sessionlog.Record{Type: sessionlog.Path, Note: "direct"})
	w.cursor = 0
	w.push()
	w.same()
	w.works()
}

// TestGapInAnAnswer: an answer whose records don't connect is not delivered;
// its call waits until it comes again with all of them.
func TestGapInAnAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := w.call("read_file", `{"path":"app/a.txt"}`)
	w.append(sessionlog.Record{Type: sessionlog.Path, Note: "relay"})
	from := w.cursor
	w.unsent() // never sent
	w.append(w.ran(f, sessionlog.OK, "", "alpha")...)
	w.send(w.answer(f, "ok", "", "alpha", nil), nil)
	if !f.waits() {
		t.Fatal("an answer with a gap was delivered")
	}
	w.wait(session.KindJoined)
	w.cursor = from
	w.push() // the records come first, the answer then has none
	w.send(w.answer(f, "ok", "", "alpha", nil), nil)
	if r, err := w.end(f); err != nil || string(r.Body) != "alpha" {
		t.Errorf("got %+v, %v", r, err)
	}
	w.works()
}
