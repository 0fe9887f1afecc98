package session

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/weftmesh/weft/protocols/strict"
)

var (
	root0 = strings.Repeat("0", 64)
	leaf  = jsontext.Value(`{"v":1,"seq":0,"type":"opened"}`)
)

// codecs has one good header of every kind, and its codec with the type erased.
var codecs = map[Kind]struct {
	good   header
	encode func(h any) (Message, error)
	decode func(Message) (any, error)
}{
	KindCall: {Call{ID: callID(1), Seq: 1, Tool: "read_file", ArgsLen: 2, DeadlineMS: 30000, Size: 3, Root: root0},
		func(h any) (Message, error) { return EncodeCall(h.(Call), []byte("{}raw")) }, erase(DecodeCall)},
	KindCancel: {Cancel{ID: callID(1)},
		func(h any) (Message, error) { return EncodeCancel(h.(Cancel)) }, erase(DecodeCancel)},
	KindProgress: {Progress{Call: callID(1), N: 1, Text: "ok  \tpkg\n"},
		func(h any) (Message, error) { return EncodeProgress(h.(Progress)) }, erase(DecodeProgress)},
	KindResult: {Result{Call: callID(1), Verdict: "ok", Kind: "text", MIME: "text/plain", Records: []jsontext.Value{leaf}, First: 2, Size: 3, Root: root0},
		func(h any) (Message, error) { return EncodeResult(h.(Result), []byte("bytes")) }, erase(DecodeResult)},
	KindRecords: {Records{Records: []jsontext.Value{leaf, leaf}, First: 0, Size: 2, Root: root0},
		func(h any) (Message, error) { return EncodeRecords(h.(Records)) }, erase(DecodeRecords)},
	KindWelcome: {Welcome{LogKey: root0, Cert: []byte("cert"), Grant: root0, Salt: root0, Size: 1, Root: root0, State: "open"},
		func(h any) (Message, error) { return EncodeWelcome(h.(Welcome)) }, erase(DecodeWelcome)},
	KindJoined: {Joined{LogKey: root0, Cert: []byte("cert"), Size: 1, Root: root0},
		func(h any) (Message, error) { return EncodeJoined(h.(Joined)) }, erase(DecodeJoined)},
	KindCheckpoint: {Checkpoint{Note: "weft/s\n1\nAAAA\n\n— weft sig\n"},
		func(h any) (Message, error) { return EncodeCheckpoint(h.(Checkpoint)) }, erase(DecodeCheckpoint)},
	KindCosign: {Cosign{Line: "— weft sig\n", Size: 1},
		func(h any) (Message, error) { return EncodeCosign(h.(Cosign)) }, erase(DecodeCosign)},
	KindState: {State{State: "paused", Reason: "by the owner"},
		func(h any) (Message, error) { return EncodeState(h.(State)) }, erase(DecodeState)},
	KindLeave: {Leave{Reason: "done"},
		func(h any) (Message, error) { return EncodeLeave(h.(Leave)) }, erase(DecodeLeave)},
	KindClosing: {Closing{Receipt: []byte(`{"payload":""}`)},
		func(h any) (Message, error) { return EncodeClosing(h.(Closing)) }, erase(DecodeClosing)},
	KindClosed: {Closed{Sig: bytes.Repeat([]byte{7}, 64)},
		func(h any) (Message, error) { return EncodeClosed(h.(Closed)) }, erase(DecodeClosed)},
}

func erase[T any](f func(Message) (T, error)) func(Message) (any, error) {
	return func(m Message) (any, error) { return f(m) }
}

// TestClosedSet is the list that doc.go promises. A new message changes it here,
// in doc.go and in the protocol's version, knowingly.
func TestClosedSet(t *testing.T) {
	t.Parallel()
	type row struct {
		Number  Kind
		Name    string
		From    Role
		Signed  bool
		Members []string
	}
	want := []row{
		{1, "call", Provider, true, []string{"id", "seq", "tool", "args_len", "deadline_ms", "size", "root"}},
		{2, "cancel", Provider, false, []string{"id"}},
		{3, "progress", Requester, false, []string{"call", "n", "text"}},
		{4, "result", Requester, true, []string{"call", "verdict", "code", "kind", "mime", "records", "first", "size", "root"}},
		{5, "records", Requester, true, []string{"records", "first", "size", "root"}},
		{6, "welcome", Requester, false, []string{"log_key", "cert", "grant", "salt", "size", "root", "state"}},
		{7, "joined", Provider, false, []string{"log_key", "cert", "size", "root"}},
		{8, "checkpoint", Requester, false, []string{"note"}},
		{9, "cosign", Provider, false, []string{"line", "size"}},
		{10, "state", Requester, false, []string{"state", "reason"}},
		{11, "leave", Provider, false, []string{"reason"}},
		{12, "closing", Requester, false, []string{"receipt"}},
		{13, "closed", Provider, false, []string{"sig"}},
	}
	var got []row
	for _, k := range Kinds() {
		r := row{k, k.String(), k.From(), k.Signed(), nil}
		for f := range reflect.TypeOf(codecs[k].good).Fields() {
			r.Members = append(r.Members, f.Tag.Get("json"))
		}
		got = append(got, r)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, r := range got {
		for _, m := range r.Members {
			for _, word := range []string{"prompt", "instruction", "message", "system", "task", "goal"} {
				if strings.Contains(r.Name+m, word) {
					t.Errorf("%s.%s could carry a prompt", r.Name, m)
				}
			}
		}
	}
}

func TestEveryHeaderRoundTrips(t *testing.T) {
	t.Parallel()
	for _, k := range Kinds() {
		c := codecs[k]
		m, err := c.encode(c.good)
		if err != nil {
			t.Fatalf("%s: %v", k, err)
		}
		got, err := c.decode(m)
		if err != nil {
			t.Fatalf("%s: %v", k, err)
		}
		if d := cmp.Diff(any(c.good), got); d != "" {
			t.Errorf("%s: %s", k, d)
		}
		for _, other := range Kinds() {
			if _, err := codecs[other].decode(m); (err == nil) != (other == k) {
				t.Errorf("a %s read as %s: %v", k, other, err)
			}
		}
		hostile := map[string]string{
			"unknown member":   `{"prompt":"do it",` + string(m.Header[1:]),
			"duplicate member": string(m.Header[:len(m.Header)-1]) + "," + string(m.Header[1:]),
			"case variant":     strings.ToUpper(string(m.Header)),
			"trailing data":    string(m.Header) + "{}",
			"missing members":  `{"size":1}`,
			"not an object":    "[]",
			"empty":            "",
		}
		for name, h := range hostile {
			bad := m
			bad.Header = []byte(h)
			if _, err := c.decode(bad); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s with %s: %v", k, name, err)
			}
		}
		if !strictlySized(m) {
			bad := m
			bad.Body = []byte("x")
			if _, err := c.decode(bad); !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s with a body: %v", k, err)
			}
		}
	}
}

// strictlySized reports whether the kind may have a body.
func strictlySized(m Message) bool { return rules[m.Kind].body > 0 }

func TestGrammar(t *testing.T) {
	t.Parallel()
	big := slices.Repeat([]jsontext.Value{leaf}, maxRecords+1)
	for _, tt := range []struct {
		name string
		k    Kind
		h    header
	}{
		{"id in capitals", KindCancel, Cancel{ID: strings.ToUpper(callID(10))}},
		{"id with braces", KindCancel, Cancel{ID: "{" + callID(1) + "}"}},
		{"id without dashes", KindCancel, Cancel{ID: strings.ReplaceAll(callID(1), "-", "")}},
		{"tool with a dot", KindCall, Call{ID: callID(1), Seq: 1, Tool: "a.b", Root: root0}},
		{"no tool", KindCall, Call{ID: callID(1), Seq: 1, Root: root0}},
		{"seq 0", KindCall, Call{ID: callID(1), Tool: "stat", Root: root0}},
		{"args behind the body", KindCall, Call{ID: callID(1), Seq: 1, Tool: "stat", ArgsLen: 6, Root: root0}},
		{"negative args", KindCall, Call{ID: callID(1), Seq: 1, Tool: "stat", ArgsLen: -1, Root: root0}},
		{"negative deadline", KindCall, Call{ID: callID(1), Seq: 1, Tool: "stat", DeadlineMS: -1, Root: root0}},
		{"root in capitals", KindCall, Call{ID: callID(1), Seq: 1, Tool: "stat", Root: strings.Repeat("A", 64)}},
		{"NUL in text", KindProgress, Progress{Call: callID(1), Text: "a\x00b"}},
		{"bad UTF-8 in text", KindProgress, Progress{Call: callID(1), Text: "\xff"}},
		{"long text", KindProgress, Progress{Call: callID(1), Text: strings.Repeat("x", maxText+1)}},
		{"verdict of another set", KindResult, Result{Call: callID(1), Verdict: "maybe", Kind: "text", Root: root0}},
		{"kind of another set", KindResult, Result{Call: callID(1), Verdict: "ok", Kind: "html", Root: root0}},
		{"mime with a newline", KindResult, Result{Call: callID(1), Verdict: "ok", Kind: "text", MIME: "a\nb", Root: root0}},
		{"records beyond the head", KindRecords, Records{Records: []jsontext.Value{leaf}, First: 2, Size: 2, Root: root0}},
		{"first beyond the head", KindRecords, Records{First: 3, Size: 2, Root: root0}},
		{"record that is no object", KindRecords, Records{Records: []jsontext.Value{jsontext.Value("1")}, Size: 1, Root: root0}},
		{"record that JSON would reformat", KindRecords, Records{Records: []jsontext.Value{jsontext.Value(`{"a": 1}`)}, Size: 1, Root: root0}},
		{"record with another escape", KindRecords, Records{Records: []jsontext.Value{jsontext.Value(`{"a":"\/"}`)}, Size: 1, Root: root0}},
		{"long record", KindRecords, Records{Records: []jsontext.Value{jsontext.Value(`{"a":"` + strings.Repeat("x", maxRecord) + `"}`)}, Size: 1, Root: root0}},
		{"many records", KindRecords, Records{Records: big, Size: 1 << 20, Root: root0}},
		{"short salt", KindWelcome, Welcome{LogKey: root0, Grant: root0, Salt: "00", Root: root0, State: "open"}},
		{"state of another set", KindState, State{State: "running"}},
		{"reason of two lines", KindState, State{State: "open", Reason: "a\nb"}},
		{"reason with an escape", KindLeave, Leave{Reason: "\x1b[2J"}},
		{"reason with a C1 control", KindLeave, Leave{Reason: "\u009b2J"}},
		{"long reason", KindLeave, Leave{Reason: strings.Repeat("x", maxReason+1)}},
		{"empty note", KindCheckpoint, Checkpoint{}},
		{"long line", KindCosign, Cosign{Line: strings.Repeat("x", maxLine+1)}},
		{"empty receipt", KindClosing, Closing{}},
		{"short signature", KindClosed, Closed{Sig: make([]byte, 63)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := codecs[tt.k].encode(tt.h); !errors.Is(err, ErrMalformed) {
				t.Errorf("encode: %v", err)
			}
			raw, err := strict.Marshal(tt.h)
			if err != nil {
				return // what JSON can't say can't come either
			}
			if _, err := codecs[tt.k].decode(Message{Kind: tt.k, Header: raw, Body: make([]byte, min(5, rules[tt.k].body))}); !errors.Is(err, ErrMalformed) &&
				tt.name != "record that JSON would reformat" && tt.name != "record with another escape" { // Marshal has tidied these
				t.Errorf("decode: %v", err)
			}
		})
	}
	untidy := `{"records":[{"a": 1}],"first":0,"size":1,"root":"` + root0 + `"}`
	if _, err := DecodeRecords(Message{Kind: KindRecords, Header: []byte(untidy)}); !errors.Is(err, ErrMalformed) {
		t.Errorf("a leaf that isn't compact: %v", err)
	}
}

// TestStates: the closed set of states, in both messages that carry one.
func TestStates(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"open", "paused", "killed", "expired", "closed", "aborted"} {
		if _, err := EncodeState(State{State: s}); err != nil {
			t.Errorf("%s: %v", s, err)
		}
		w := codecs[KindWelcome].good.(Welcome)
		w.State = s
		if _, err := EncodeWelcome(w); err != nil {
			t.Errorf("welcome, %s: %v", s, err)
		}
	}
}

// TestSplit: arguments end where content begins, and an append to one does not
// reach the other.
func TestSplit(t *testing.T) {
	t.Parallel()
	body := []byte(`{"path":"a/b"}` + "content")
	args, content := Call{ArgsLen: 14}.Split(body)
	if string(args) != `{"path":"a/b"}` || string(content) != "content" {
		t.Errorf("got %q and %q", args, content)
	}
	_ = append(args, 'X')
	if string(content) != "content" {
		t.Error("the parts share room")
	}
}

// TestRecordsAreVerbatim: a leaf's hash is over its bytes, so they must come as
// they went.
func TestRecordsAreVerbatim(t *testing.T) {
	t.Parallel()
	leaves := []jsontext.Value{leaf, jsontext.Value(`{"z":1,"a":"é\"\n","n":1.50}`)}
	m, err := EncodeRecords(Records{Records: leaves, Size: 2, Root: root0})
	if err != nil {
		t.Fatal(err)
	}
	h, err := DecodeRecords(m)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(leaves, h.Records); d != "" {
		t.Error(d)
	}
}

func TestSignatureCoversEverything(t *testing.T) {
	t.Parallel()
	k := testKey(t, "provider")
	m := bulk(t, k, 1, 100)
	if err := Verify(k.Public(), "s-1", m); err != nil {
		t.Fatal(err)
	}
	flip := func(b []byte, i int) []byte {
		b = bytes.Clone(b)
		b[i] ^= 1
		return b
	}
	cases := map[string]Message{
		"another kind":  {Kind: KindResult, Header: m.Header, Body: m.Body, Sig: m.Sig},
		"header":        {Kind: m.Kind, Header: flip(m.Header, 5), Body: m.Body, Sig: m.Sig},
		"body":          {Kind: m.Kind, Header: m.Header, Body: flip(m.Body, 99), Sig: m.Sig},
		"signature":     {Kind: m.Kind, Header: m.Header, Body: m.Body, Sig: flip(m.Sig, 63)},
		"no signature":  {Kind: m.Kind, Header: m.Header, Body: m.Body},
		"byte moved":    {Kind: m.Kind, Header: m.Header[:len(m.Header)-1], Body: append([]byte("}"), m.Body...), Sig: m.Sig},
		"half a signed": {Kind: m.Kind, Header: m.Header, Body: m.Body, Sig: m.Sig[:32]},
	}
	for name, bad := range cases {
		if err := Verify(k.Public(), "s-1", bad); !errors.Is(err, ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Verify(k.Public(), "s-2", m); !errors.Is(err, ErrSignature) {
		t.Errorf("another session: %v", err)
	}
	if err := Verify(testKey(t, "requester").Public(), "s-1", m); !errors.Is(err, ErrSignature) {
		t.Errorf("another signer: %v", err)
	}
}

func TestSendRefuses(t *testing.T) {
	t.Parallel()
	r, _ := channels(t)
	ctx := deadline(t)
	good := progress(t, 1, 1)
	call := bulk(t, testKey(t, "provider"), 1, 1)
	unsigned := call
	unsigned.Sig = nil
	overSigned := good
	overSigned.Sig = call.Sig
	withBody := good
	withBody.Body = []byte("x")
	longHeader := good
	longHeader.Header = make([]byte, smallHeader+1)
	wrongLane := good
	wrongLane.Lane = lanes
	for name, tt := range map[string]struct {
		m    Message
		want error
	}{
		"kind 0":       {Message{Header: []byte("{}")}, ErrUnknownKind},
		"kind 14":      {Message{Kind: 14, Header: []byte("{}")}, ErrUnknownKind},
		"unsigned":     {unsigned, ErrMalformed},
		"over-signed":  {overSigned, ErrMalformed},
		"with a body":  {withBody, ErrTooLarge},
		"long header":  {longHeader, ErrTooLarge},
		"no header":    {Message{Kind: KindLeave}, ErrMalformed},
		"unknown lane": {wrongLane, ErrMalformed},
	} {
		if err := r.Send(ctx, tt.m); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	rc, _ := configs(t)
	rc.Role = Requester
	c := New(rc)
	defer c.Close()
	if err := c.Send(ctx, call); !errors.Is(err, ErrMismatch) {
		t.Errorf("a requester sends a call: %v", err)
	}
	if got := r.State().Queued; got != 0 {
		t.Errorf("%d bytes queued", got)
	}
}
