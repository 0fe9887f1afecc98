package provider_test

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/protocols/session"
	"github.com/weftmesh/weft/workspace/gate"
	"github.com/weftmesh/weft/workspace/grant"
	"github.com/weftmesh/weft/workspace/sessionlog"
)

// TestForgedResults: an answer that the requester didn't sign for this session
// is dropped, and the call still waits for its own.
func TestForgedResults(t *testing.T) {
	t.Parallel()
	for name, forge := range map[string]func(*world, session.Message) session.Message{
		"signed by a stranger": func(w *world, m session.Message) session.Message {
			return session.Sign(identity.Generate(), w.grant.Session, m)
		},
		"signed by the provider itself": func(w *world, m session.Message) session.Message {
			return session.Sign(w.mine, w.grant.Session, m)
		},
		"signed for another session": func(w *world, m session.Message) session.Message {
			return session.Sign(w.peer, grant.NewSession(), m)
		},
		"another body": func(_ *world, m session.Message) session.Message {
			m.Body = []byte("forged")
			return m
		},
		"another verdict": func(_ *world, m session.Message) session.Message {
			m.Header = []byte(strings.Replace(string(m.Header), `"ok"`, `"failed"`, 1))
			return m
		},
		"signature of zeros": func(_ *world, m session.Message) session.Message { m.Sig = make([]byte, 64); return m },
		"the signature of a records message": func(w *world, m session.Message) session.Message {
			as := m
			as.Kind = session.KindRecords
			m.Sig = session.Sign(w.peer, w.grant.Session, as).Sig
			return m
		},
		"a header that doesn't parse": func(w *world, m session.Message) session.Message {
			m.Header = []byte(`{"call":"../../x"}`)
			return session.Sign(w.peer, w.grant.Session, m)
		},
		"a member twice": func(w *world, m session.Message) session.Message {
			m.Header = []byte(strings.Replace(string(m.Header), `"verdict":"ok"`, `"verdict":"denied","verdict":"ok"`, 1))
			return session.Sign(w.peer, w.grant.Session, m)
		},
		"a member too many": func(w *world, m session.Message) session.Message {
			m.Header = []byte(strings.Replace(string(m.Header), `{`, `{"prompt":"do this",`, 1))
			return session.Sign(w.peer, w.grant.Session, m)
		},
		"a record with a space": func(w *world, m session.Message) session.Message {
			m.Header = []byte(strings.Replace(string(m.Header), `"records":[{`, `"records":[{ `, 1))
			return session.Sign(w.peer, w.grant.Session, m)
		},
		"a root that is no hash": func(w *world, m session.Message) session.Message {
			m.Header = []byte(strings.Replace(string(m.Header), `"root":"`, `"root":"zz`, 1))
			return session.Sign(w.peer, w.grant.Session, m)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			f := w.call("read_file", `{"path":"app/a.txt"}`)
			before := w.s.Log().Head()
			w.append(w.ran(f, sessionlog.OK, "", "alpha")...)
			good := w.answer(f, "ok", "", "alpha", nil)
			w.send(forge(w, good), nil)
			if !f.waits() || w.s.Log().Head() != before || w.s.State() != gate.Open {
				t.Fatalf("the forged answer had an effect: waits %t, %d records, %s", f.waits(), w.s.Log().Head().Size, w.s.State())
			}
			w.send(good, nil)
			if r, err := w.end(f); err != nil || string(r.Body) != "alpha" || r.Verdict != "ok" {
				t.Errorf("the true answer came as %+v, %v", r, err)
			}
			w.works()
		})
	}
}

// TestUnknownCalls: answers to calls that nobody made, or that were answered,
// bring their records and nothing else.
func TestUnknownCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ghost := &flight{call: session.Call{ID: uuid.NewString(), Tool: "read_file"}}
	w.append(w.ran(ghost, sessionlog.OK, "", "boo")...)
	w.send(w.answer(ghost, "ok", "", "boo", nil), nil)
	w.same()
	w.send(w.answer(ghost, "ok", "", "boo again", nil), nil) // without records
	f := w.call("read_file", `{"path":"app/a.txt"}`)
	w.append(w.ran(f, sessionlog.OK, "", "alpha")...)
	m := w.answer(f, "ok", "", "alpha", nil)
	for range 3 {
		w.send(m, nil)
	}
	if r, err := w.end(f); err != nil || string(r.Body) != "alpha" {
		t.Errorf("got %+v, %v", r, err)
	}
	w.send(w.answer(f, "failed", "not_found", "another answer to the same call", nil), nil)
	w.works()
	// Ids that are none never get as far as the calls.
	for _, id := range []string{"", "../x", strings.ToUpper(uuid.NewString())} {
		h := w.log.Head()
		w.send(w.sign(session.Message{Kind: session.KindResult, Body: []byte("x"), Header: []byte(
			`{"call":"` + id + `","verdict":"ok","code":"","kind":"text","mime":"","records":[],"first":` + "0" + `,"size":0,"root":"` + rootHex(h) + `"}`)}, nil), nil)
	}
	w.works()
}

// TestWelcome: what doesn't belong to this session, grant and identity is
// dropped, and the true welcome still counts.
func TestWelcome(t *testing.T) {
	t.Parallel()
	w := newStranger(t)
	encode := func(c sessionlog.KeyCert) []byte {
		raw, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	certify := func(k *identity.Key, id string, role sessionlog.Role) []byte {
		_, c, err := sessionlog.Certify(k, id, role)
		if err != nil {
			t.Fatal(err)
		}
		return encode(c)
	}
	for name, change := range map[string]func(*session.Welcome){
		"another grant": func(m *session.Welcome) { m.Grant = strings.Repeat("ab", 32) },
		"a stranger's certificate": func(m *session.Welcome) {
			m.Cert = certify(identity.Generate(), w.grant.Session, sessionlog.RoleRequester)
		},
		"a certificate for another session": func(m *session.Welcome) { m.Cert = certify(w.peer, grant.NewSession(), sessionlog.RoleRequester) },
		"a certificate as provider":         func(m *session.Welcome) { m.Cert = certify(w.peer, w.grant.Session, sessionlog.RoleProvider) },
		"the provider's certificate":        func(m *session.Welcome) { m.Cert = certify(w.mine, w.grant.Session, sessionlog.RoleRequester) },
		"no certificate":                    func(m *session.Welcome) { m.Cert = nil },
		"a certificate with a changed key": func(m *session.Welcome) {
			c := w.cert
			c.Key = identity.Generate().Public()
			m.Cert = encode(c)
		},
		"a log key that is not the certificate's": func(m *session.Welcome) { m.LogKey = strings.Repeat("cd", 32) },
	} {
		w.came()
		w.welcome(change)
		if got := w.came(); got[session.KindJoined] != 0 {
			t.Errorf("%s: was answered", name)
		}
	}
	if w.s.State() != gate.Open || w.s.Forked() {
		t.Fatalf("the state is %s", w.s.State())
	}
	w.welcome(nil)
	w.wait(session.KindJoined)
	w.open()
	w.works()
}

// TestKeysNeverChange: a requester that comes back with another key for the
// commitments, or for checkpoints, shows two logs.
func TestKeysNeverChange(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*world, *session.Welcome){
		"commitments": func(_ *world, m *session.Welcome) { m.Salt = sessionlog.NewKey().Hex() },
		"checkpoints": func(w *world, m *session.Welcome) {
			c := recertify(w)
			raw, err := c.Encode()
			if err != nil {
				w.t.Fatal(err)
			}
			m.Cert, m.LogKey = raw, hexKey(c.Key)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			f := w.call("read_file", `{"path":"app/a.txt"}`)
			head := w.s.Log().Head()
			w.welcome(func(m *session.Welcome) { change(w, m) })
			w.forked(head, f)
		})
	}
}

// recertify makes the requester certify another log key for the same session,
// which honest code can't: it derives the key.
func recertify(w *world) sessionlog.KeyCert {
	c := w.cert
	c.Key = identity.Generate().Public()
	var b []byte
	for _, part := range [][]byte{[]byte(c.Session), []byte(c.Role), c.Identity[:], c.Key[:]} {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	c.Sig = w.peer.Sign("weft/log-key/v1", b)
	if err := c.Verify(c.Session, c.Role, c.Identity); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// TestCancelKeepsTheOpening: a call that was given up still ends in the log,
// and this side can still say what it was.
func TestCancelKeepsTheOpening(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	f := w.callWith(ctx, "read_file", `{"path":"app/a.txt"}`, nil)
	cancel()
	if _, err := w.end(f); err != context.Canceled {
		t.Errorf("got %v", err)
	}
	c, err := session.DecodeCancel(w.wait(session.KindCancel))
	if err != nil || c.ID != f.call.ID {
		t.Fatalf("cancelled %+v, %v", c, err)
	}
	w.append(w.ran(f, sessionlog.Failed, "cancelled", "FAILED cancelled")...)
	w.send(w.answer(f, "failed", "cancelled", "FAILED cancelled", nil), nil)
	w.same()
	if path, err := w.s.PathOf(f.call.ID); err != nil || path != "app/a.txt" {
		t.Errorf("the call named %q, %v", path, err)
	}
	if pending, left := w.s.Waiting(); pending != 0 || left != 0 {
		t.Errorf("%d calls wait, %d openings are kept", pending, left)
	}
	w.works()
}

// TestRefusalsWithoutRecord: a session whose log is complete or broken refuses
// without a record; that is no contradiction.
func TestRefusalsWithoutRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, code := range []string{"killed", "expired", "log_unavailable"} {
		f := w.call("read_file", `{"path":"app/a.txt"}`)
		w.send(w.answer(f, "denied", code, "DENIED "+code, nil), nil)
		if r, err := w.end(f); err != nil || r.Code != code || w.s.Forked() {
			t.Errorf("%s: %+v, %v, forked %t", code, r, err, w.s.Forked())
		}
	}
	w.works()
}
