package sessionlog

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// full is a record with every member that a result can have.
func full() Record {
	var k Key
	r := Record{V: 1, Seq: 42, Session: testSession, Time: 1_790_000_000_123, Type: Result,
		Call: "0190c2f0-7f3a-7000-8000-0123456789ab", Tool: "write_file", Verdict: Failed, Code: "changed",
		Bytes: 1, Written: 2, Redacted: 3, Note: "direct quic"}
	k.Fill(Values{Path: []byte("app/x"), Args: []byte("{}"), Request: []byte("r"), Result: []byte("")})(&r)
	return r
}

func TestRecordGolden(t *testing.T) {
	t.Parallel()
	leaf, err := full().encode()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join("testdata", "record.json"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimSpace(string(want)), string(leaf)); diff != "" {
		t.Errorf("the record format changed, which breaks every stored log:\n%s", diff)
	}
	got, err := Decode(leaf)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(full(), got); diff != "" {
		t.Error(diff)
	}
	if len(leaf) > MaxRecord/2 {
		t.Errorf("a full record takes %d bytes", len(leaf))
	}
}

func TestRecordDecodeRefuses(t *testing.T) {
	t.Parallel()
	leaf, err := full().encode()
	if err != nil {
		t.Fatal(err)
	}
	good := string(leaf)
	edit := func(old, new string) string {
		s := strings.Replace(good, old, new, 1)
		if s == good {
			t.Fatalf("%q is not in the record", old)
		}
		return s
	}
	for name, in := range map[string]string{
		"empty":               "",
		"not JSON":            "call",
		"array":               "[" + good + "]",
		"space in front":      " " + good,
		"newline behind":      good + "\n",
		"second value":        good + good,
		"space inside":        edit(`"v":1,`, `"v": 1,`),
		"member order":        edit(`"v":1,"seq":42`, `"seq":42,"v":1`),
		"unknown member":      edit(`"v":1`, `"v":1,"x":1`),
		"duplicate member":    edit(`"v":1`, `"v":1,"v":1`),
		"case variant":        edit(`"seq"`, `"Seq"`),
		"escaped letter":      edit(`"tool":"w`, `"tool":"\u0077`),
		"exponent":            edit(`"seq":42`, `"seq":4.2e1`),
		"version 2":           edit(`"v":1`, `"v":2`),
		"negative seq":        edit(`"seq":42`, `"seq":-1`),
		"huge seq":            edit(`"seq":42`, `"seq":262144`),
		"seq beyond 2^53":     edit(`"seq":42`, `"seq":9007199254740993`),
		"session shape":       edit(testSession, "../etc"),
		"session empty":       edit(testSession, ""),
		"time zero":           edit(`"time":1790000000123`, `"time":0`),
		"time negative":       edit(`"time":1790000000123`, `"time":-5`),
		"type unknown":        edit(`"type":"result"`, `"type":"prompt"`),
		"explicit empty":      edit(`"code":"changed"`, `"code":""`),
		"call id shape":       edit("0190c2f0-7f3a", "a b"),
		"call id long":        edit("0190c2f0-7f3a", strings.Repeat("a", 65)),
		"tool shape":          edit("write_file", "write/file"),
		"verdict unknown":     edit(`"failed"`, `"done"`),
		"ok with code":        edit(`"failed"`, `"ok"`),
		"denied odd code":     edit(`"failed"`, `"denied"`),
		"allowed result":      edit(`"verdict":"failed"`, `"verdict":"allowed"`),
		"grant in a result":   edit(`"type":"result"`, `"type":"result","grant":"`+testGrant+`"`),
		"commitment short":    edit(`"path":"`, `"path":"0`),
		"commitment upper":    edit(`"path":"`, `"path":"A`)[:len(good)+1],
		"bytes negative":      edit(`"bytes":1`, `"bytes":-1`),
		"bytes beyond 2^53":   edit(`"bytes":1`, `"bytes":9007199254740992`),
		"note with path":      edit("direct quic", "/home/alice"),
		"note with control":   edit("direct quic", `direct\u001b`),
		"note too long":       edit("direct quic", strings.Repeat("a", 201)),
		"note not ASCII":      edit("direct quic", "caf\u00e9"),
		"bad UTF-8":           edit("direct quic", "\xff"),
		"NUL":                 edit("direct quic", `a\u0000b`),
		"over the size limit": edit("direct quic", strings.Repeat("a", MaxRecord)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if r, err := Decode([]byte(in)); !errors.Is(err, ErrRecord) {
				t.Errorf("got %+v, %v", r, err)
			}
		})
	}
}

func TestRecordShapes(t *testing.T) {
	t.Parallel()
	base := func(r Record) Record {
		r.V, r.Session = 1, testSession
		if r.Time == 0 {
			r.Time = 1
		}
		return r
	}
	with := func(r Record, change func(*Record)) Record { change(&r); return r }
	for name, c := range map[string]struct {
		r  Record
		ok bool
	}{
		"opened":                     {opened(), true},
		"opened without grant":       {with(opened(), func(r *Record) { r.Grant = "" }), false},
		"opened with a call":         {with(opened(), func(r *Record) { r.Call = "c" }), false},
		"call":                       {call("c", "glob"), true},
		"call with code":             {with(call("c", "glob"), func(r *Record) { r.Code = "killed" }), false},
		"call with bytes":            {with(call("c", "glob"), func(r *Record) { r.Bytes = 1 }), false},
		"call with written":          {with(call("c", "glob"), func(r *Record) { r.Written = 1 }), false},
		"call without id":            {with(call("c", "glob"), func(r *Record) { r.Call = "" }), false},
		"call without tool":          {with(call("c", "glob"), func(r *Record) { r.Tool = "" }), false},
		"call without verdict":       {with(call("c", "glob"), func(r *Record) { r.Verdict = "" }), false},
		"call with verdict ok":       {with(call("c", "glob"), func(r *Record) { r.Verdict = OK }), false},
		"denied":                     {denied("c", "glob", "killed"), true},
		"denied without code":        {denied("c", "glob", ""), false},
		"denied with a made-up code": {denied("c", "glob", "tired"), false},
		"denied with bytes":          {with(denied("c", "glob", "killed"), func(r *Record) { r.Bytes = 1 }), false},
		"unknown tool":               {denied("c", UnknownTool, "unknown_tool"), true},
		"unknown tool by name":       {denied("c", "run_prompt", "unknown_tool"), false},
		"result denied":              {with(result("c", "glob", Denied), func(r *Record) { r.Code, r.Bytes = "special_file", 0 }), true},
		"result unknown":             {result("c", "glob", Unknown), true},
		"closed":                     {ended(Closed), true},
		"closed with a code":         {with(ended(Closed), func(r *Record) { r.Code = "left" }), true},
		"closed with a tool":         {with(ended(Closed), func(r *Record) { r.Tool = "glob" }), false},
		"path with redactions":       {Record{Type: Path, Redacted: 1}, false},
		"code shape":                 {with(ended(Closed), func(r *Record) { r.Code = "No!" }), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			leaf, err := base(c.r).encode()
			if (err == nil) != c.ok {
				t.Fatalf("encode: %v, want ok %v", err, c.ok)
			}
			if err != nil && !errors.Is(err, ErrRecord) {
				t.Errorf("not ErrRecord: %v", err)
			}
			if c.ok {
				if got, err := Decode(leaf); err != nil || !cmp.Equal(got, base(c.r)) {
					t.Errorf("decoded %+v, %v", got, err)
				}
			}
		})
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, want string }{
		"plain":       {"relay to direct quic", "relay to direct quic"},
		"path":        {"/home/alice/x", "_home_alice_x"},
		"windows":     {`C:\x`, "C:_x"},
		"quote":       {`say "hi"`, "say _hi_"},
		"control":     {"a\x1b[2Jb\n", "a_[2Jb_"},
		"two bytes":   {"caf\u00e9", "caf__"},
		"bad UTF-8":   {"a\xff\xfeb", "a_b"},
		"long":        {strings.Repeat("x", 500), strings.Repeat("x", 200)},
		"long at cut": {strings.Repeat("x", 199) + "\u00e9", strings.Repeat("x", 199) + "_"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Words(c.in)
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if Words(got) != got {
				t.Errorf("%q is not stable", got)
			}
		})
	}
}

// FuzzDecode: whatever decodes has one spelling and passes its own checks.
func FuzzDecode(f *testing.F) {
	leaf, err := full().encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(leaf)
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Decode(data)
		if err != nil {
			if !errors.Is(err, ErrRecord) {
				t.Fatalf("not ErrRecord: %v", err)
			}
			return
		}
		again, err := r.encode()
		if err != nil || string(again) != string(data) {
			t.Fatalf("encoded again: %q, %v", again, err)
		}
	})
}
