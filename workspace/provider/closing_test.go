package provider_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/protocols/session"
	"github.com/weftmesh/weft/protocols/signed"
	"github.com/weftmesh/weft/protocols/strict"
	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/gate"
	"github.com/weftmesh/weft/workspace/grant"
	"github.com/weftmesh/weft/workspace/provider"
	"github.com/weftmesh/weft/workspace/receipt"
	"github.com/weftmesh/weft/workspace/sessionlog"
)

// parties are both sides, the provider certified as it joined.
func (w *world) parties() sessionlog.Parties {
	w.t.Helper()
	_, theirs, err := sessionlog.Certify(w.mine, w.grant.Session, sessionlog.RoleProvider)
	if err != nil {
		w.t.Fatal(err)
	}
	return sessionlog.Parties{Session: w.grant.Session, Requester: w.peer.Public(), Provider: w.mine.Public(),
		Certs: []sessionlog.KeyCert{w.cert, theirs}}
}

// cosigned has the provider sign the present head, and checks its line.
func (w *world) cosigned() []byte {
	w.t.Helper()
	w.came()
	head := w.log.Head()
	note, err := sessionlog.SignCheckpoint(w.sub, w.grant.Session, w.peer.Public(), head)
	if err != nil {
		w.t.Fatal(err)
	}
	w.send(session.EncodeCheckpoint(session.Checkpoint{Note: string(note)}))
	c, err := session.DecodeCosign(w.wait(session.KindCosign))
	if err != nil || c.Size != head.Size {
		w.t.Fatalf("cosigned %d, %v", c.Size, err)
	}
	whole, err := sessionlog.AddCosignature(note, c.Line, w.parties())
	if err != nil {
		w.t.Fatal(err)
	}
	return whole
}

// finish ends the log honestly.
func (w *world) finish() {
	w.t.Helper()
	w.append(sessionlog.Record{Type: sessionlog.Closed, Time: time.Now().UnixMilli(), Note: "done"})
	w.push()
}

// receipt builds the honest receipt over a checkpoint.
func (w *world) receipt(checkpoint []byte) receipt.Receipt {
	w.t.Helper()
	r, err := receipt.Build(w.log, w.parties(), checkpoint, 1)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// seal signs any receipt as the requester, sound or not.
func (w *world) seal(r receipt.Receipt) []byte {
	w.t.Helper()
	payload, err := strict.Marshal(r)
	if err != nil {
		w.t.Fatal(err)
	}
	doc, err := signed.Seal(signed.Receipt, payload, w.peer)
	if err != nil {
		w.t.Fatal(err)
	}
	return doc.Raw()
}

// unsigned shows that a receipt was kept out and not signed.
func (w *world) unsigned(why string) {
	w.t.Helper()
	if got := w.came(); got[session.KindClosed] != 0 || w.s.Receipt() != nil || w.s.Settled() {
		w.t.Errorf("%s: signed %d times, kept %t, settled %t", why, got[session.KindClosed], w.s.Receipt() != nil, w.s.Settled())
	}
}

// settled shows that both have signed, and that the file says so by itself.
func (w *world) settled(state gate.State) {
	w.t.Helper()
	c, err := session.DecodeClosed(w.wait(session.KindClosed))
	if err != nil {
		w.t.Fatal(err)
	}
	if w.s.State() != state || !w.s.Settled() {
		w.t.Errorf("the state is %s, settled %t", w.s.State(), w.s.Settled())
	}
	v, err := receipt.Verify(w.s.Receipt())
	if err != nil || !v.ProviderSigned || v.Records != w.log.Head().Size {
		w.t.Errorf("the receipt says %+v, %v", v, err)
	}
	if !bytes.Contains(w.s.Receipt(), []byte(`"sig"`)) || len(c.Sig) != 64 {
		w.t.Errorf("a signature of %d bytes", len(c.Sig))
	}
	if _, err := w.s.Call(w.t.Context(), "stat", nil, nil, nil); err == nil {
		w.t.Error("a call after the end was taken")
	}
}

// TestReceiptThatLies: the provider signs no receipt in which any member
// differs from what its replica and its grant give (section 6 of design.md).
func TestReceiptThatLies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.works()
	f := w.call("read_file", `{"path":"app/none"}`)
	w.append(w.ran(f, sessionlog.Failed, "not_found", "FAILED not_found")...)
	w.send(w.answer(f, "failed", "not_found", "FAILED not_found", nil), nil)
	w.finish()
	honest := w.receipt(w.cosigned())
	stranger := identity.Generate()
	other := w.other(int(w.log.Head().Size))
	lies := map[string]func(*receipt.Receipt){
		"V":            func(r *receipt.Receipt) { r.V = 2 },
		"Session":      func(r *receipt.Receipt) { r.Session = grant.NewSession() },
		"Requester":    func(r *receipt.Receipt) { r.Requester = stranger.Public() },
		"Provider":     func(r *receipt.Receipt) { r.Provider = stranger.Public() },
		"Grant":        func(r *receipt.Receipt) { r.Grant = strings.Repeat("ab", 32) },
		"OpenedAt":     func(r *receipt.Receipt) { r.OpenedAt-- },
		"ClosedAt":     func(r *receipt.Receipt) { r.ClosedAt++ },
		"State":        func(r *receipt.Receipt) { r.State = sessionlog.Killed },
		"Calls":        func(r *receipt.Receipt) { r.Calls++; r.Counts["stat"]["ok"]++ },
		"Counts":       func(r *receipt.Receipt) { r.Counts["stat"] = map[sessionlog.Verdict]uint64{"failed": 1} },
		"Unknown":      func(r *receipt.Receipt) { r.Unknown++; delete(r.Counts["stat"], "ok"); r.Counts["stat"]["unknown"] = 1 },
		"BytesRead":    func(r *receipt.Receipt) { r.BytesRead++ },
		"BytesWritten": func(r *receipt.Receipt) { r.BytesWritten++ },
		"Redacted":     func(r *receipt.Receipt) { r.Redacted++ },
		"Records":      func(r *receipt.Receipt) { r.Records-- },
		"Root":         func(r *receipt.Receipt) { r.Root = strings.Repeat("ab", 32) },
		"Unacked":      func(r *receipt.Receipt) { r.Unacked = 1 },
		"Sandbox":      func(r *receipt.Receipt) { r.Sandbox = "unsandboxed" },
		"Checkpoint": func(r *receipt.Receipt) {
			h := other.Head()
			note, err := sessionlog.SignCheckpoint(w.sub, w.grant.Session, w.peer.Public(), h)
			if err != nil {
				t.Fatal(err)
			}
			r.Checkpoint, r.Root, r.Records, r.Unacked = string(note), rootHex(h), h.Size, 1
		},
		"Certs": func(r *receipt.Receipt) { r.Certs = r.Certs[:1] },
	}
	copied := func() receipt.Receipt {
		var r receipt.Receipt
		raw, err := strict.Marshal(honest)
		if err == nil {
			err = strict.Unmarshal(raw, 1<<20, &r)
		}
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for i := range reflect.TypeFor[receipt.Receipt]().NumField() {
		field := reflect.TypeFor[receipt.Receipt]().Field(i).Name
		lie, ok := lies[field]
		if !ok {
			t.Errorf("no lie about %s is tried", field)
			continue
		}
		r := copied()
		lie(&r)
		w.send(session.EncodeClosing(session.Closing{Receipt: w.seal(r)}))
		w.unsigned(field)
	}
	// Others than the requester, and what isn't a receipt.
	sealedBy := func(keys ...*identity.Key) []byte {
		payload, err := strict.Marshal(honest)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := signed.Seal(signed.Receipt, payload, keys...)
		if err != nil {
			t.Fatal(err)
		}
		return doc.Raw()
	}
	for name, raw := range map[string][]byte{
		"signed by a stranger":       sealedBy(stranger),
		"signed by the provider":     sealedBy(w.mine),
		"signed by a stranger too":   sealedBy(w.peer, stranger),
		"the grant in its place":     w.doc.Raw(),
		"no document":                []byte("receipt"),
		"a document that is cut off": w.seal(honest)[:200],
	} {
		w.send(session.EncodeClosing(session.Closing{Receipt: raw}))
		w.unsigned(name)
	}
	if why := w.s.Reason(); !strings.Contains(why, "not signed") {
		t.Errorf("the reason is %q", why)
	}
	// The true one is signed, though no word of an end was sent before it.
	if w.s.State() != gate.Open {
		t.Fatalf("the state is %s", w.s.State())
	}
	w.send(session.EncodeClosing(session.Closing{Receipt: w.seal(honest)}))
	w.settled(gate.Closed)
	if v, err := receipt.Verify(w.s.Receipt()); err != nil || !v.Cosigned {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestClosingTooEarly: a receipt for records that are not here yet, or for a
// log that goes on, is not signed; one without this side's cosignature of the
// log is, since it says so itself.
func TestClosingTooEarly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.works()
	w.append(sessionlog.Record{Type: sessionlog.Killed, Time: time.Now().UnixMilli(), Note: "stopped"})
	note, err := sessionlog.SignCheckpoint(w.sub, w.grant.Session, w.peer.Public(), w.log.Head())
	if err != nil {
		t.Fatal(err)
	}
	closing := session.Closing{Receipt: w.seal(w.receipt(note))}
	w.send(session.EncodeClosing(closing))
	w.unsigned("the last record isn't here")
	w.push()
	w.send(session.EncodeClosing(closing))
	w.settled(gate.Killed)
	v, err := receipt.Verify(w.s.Receipt())
	if err != nil || v.Cosigned || !v.ProviderSigned || v.Unacked == 0 {
		t.Errorf("%+v, %v", v, err)
	}
	// The cosignature comes later, and so may the better receipt.
	better := w.receipt(w.cosigned())
	w.send(session.EncodeClosing(session.Closing{Receipt: w.seal(better)}))
	w.settled(gate.Killed)
	if v, err := receipt.Verify(w.s.Receipt()); err != nil || !v.Cosigned {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestCheckpoints: what is cosigned is what the replica has.
func TestCheckpoints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.works()
	whole := w.cosigned()
	c, err := sessionlog.VerifyCheckpoint(whole, w.parties())
	if err != nil || !c.Cosigned || c.Head != w.log.Head() {
		t.Fatalf("%+v, %v", c, err)
	}
	stranger := identity.Generate()
	sub, _, err := sessionlog.Certify(stranger, w.grant.Session, sessionlog.RoleRequester)
	if err != nil {
		t.Fatal(err)
	}
	sign := func(key *identity.Key, id string, who identity.PublicKey, h sessionlog.Head) string {
		note, err := sessionlog.SignCheckpoint(key, id, who, h)
		if err != nil {
			t.Fatal(err)
		}
		return string(note)
	}
	head := w.log.Head()
	longer := head
	longer.Size += 5
	for name, note := range map[string]string{
		"a stranger's":              sign(sub, w.grant.Session, stranger.Public(), head),
		"a stranger's in our name":  sign(sub, w.grant.Session, w.peer.Public(), head),
		"another session's":         sign(w.sub, grant.NewSession(), w.peer.Public(), head),
		"by the identity itself":    sign(w.peer, w.grant.Session, w.peer.Public(), head),
		"of a log longer than ours": sign(w.sub, w.grant.Session, w.peer.Public(), longer),
		"cosigned already":          string(whole),
		"not a note":                "weft\n",
		"a note with a tail":        sign(w.sub, w.grant.Session, w.peer.Public(), head) + "x\n",
	} {
		w.came()
		w.send(session.EncodeCheckpoint(session.Checkpoint{Note: note}))
		if got := w.came(); got[session.KindCosign] != 0 && name != "cosigned already" {
			t.Errorf("%s: was cosigned", name)
		}
		if w.s.Forked() || w.s.State() != gate.Open {
			t.Fatalf("%s: the state is %s", name, w.s.State())
		}
	}
	w.works()
	w.cosigned()
	// A record can be proved on this side too.
	for seq := range w.log.Head().Size {
		raw, err := w.s.Prove(seq)
		if err != nil {
			t.Fatalf("record %d: %v", seq, err)
		}
		d, err := receipt.Check(raw, nil)
		if err != nil || d.Seq != seq || !d.Cosigned {
			t.Errorf("record %d: %+v, %v", seq, d, err)
		}
	}
}

// TestStates: what the requester says of the session counts until its end, and
// nothing after.
func TestStates(t *testing.T) {
	t.Parallel()
	for state, want := range map[gate.State]workspace.Code{
		gate.Killed: workspace.Killed, gate.Lapsed: workspace.Expired, gate.Closed: workspace.Killed, gate.Aborted: workspace.Killed,
	} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			f := w.call("stat", `{"path":"app"}`)
			w.send(session.EncodeState(session.State{State: "paused", Reason: "lunch"}))
			if w.s.State() != gate.Paused || w.s.Reason() != "lunch" || !f.waits() {
				t.Fatalf("paused: %s %q", w.s.State(), w.s.Reason())
			}
			w.send(session.EncodeState(session.State{State: "open"}))
			w.send(session.EncodeState(session.State{State: string(state), Reason: "the end"}))
			r, err := w.end(f)
			if err != nil || r.Verdict != "denied" || r.Code != string(want) || !strings.HasPrefix(string(r.Body), "DENIED "+string(want)) {
				t.Errorf("the call in flight got %+v, %v", r, err)
			}
			for _, later := range []string{"open", "paused", "killed", "closed"} {
				w.send(session.EncodeState(session.State{State: later, Reason: "changed my mind"}))
				w.welcome(func(m *session.Welcome) { m.State = later })
			}
			if w.s.State() != state || w.s.Reason() != "the end" {
				t.Errorf("after the end: %s %q", w.s.State(), w.s.Reason())
			}
			if _, err := w.s.Call(t.Context(), "stat", nil, nil, nil); err == nil {
				t.Error("a call after the end was taken")
			}
			if err := w.s.Leave("again"); err == nil {
				t.Error("left after the end")
			}
			w.disconnect()
			w.s.Close()
			if w.s, err = provider.Load(w.cfg, w.grant.Session); err != nil || w.s.State() != state {
				t.Errorf("after a restart: %s, %v", w.s.State(), err)
			}
		})
	}
}
