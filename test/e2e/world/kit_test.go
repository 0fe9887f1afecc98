//go:build unix

package world

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func sh(t *testing.T, w *World, script string) *Process {
	t.Helper()
	return w.Start(t, Spec{Argv: []string{"/bin/sh", "-c", script}, Env: w.Env(w.Dir)})
}

func TestProcess(t *testing.T) {
	t.Parallel()
	w := New(t)

	p := sh(t, w, `echo one; printf two; echo problem >&2; read x; echo " $x"; exit 5`)
	if line, ok := p.Line(Patience); !ok || string(line) != "one" {
		t.Fatalf("first line %q, %v", line, ok)
	}
	if err := p.Send([]byte("three\n")); err != nil {
		t.Fatal(err)
	}
	if line, ok := p.Line(Patience); !ok || string(line) != "two three" {
		t.Fatalf("second line %q, %v", line, ok)
	}
	if line, ok := p.Line(Patience); ok {
		t.Fatalf("a line after the end: %q", line)
	}
	if code := p.Wait(t, Patience); code != 5 || p.Stderr() != "problem\n" || p.Stdout() != "one\ntwo three\n" {
		t.Fatalf("code %d, stdout %q, stderr %q", code, p.Stdout(), p.Stderr())
	}

	killed := sh(t, w, "kill -9 $$")
	if code := killed.Wait(t, Patience); code != 128+9 {
		t.Errorf("killed: code %d", code)
	}
	stopped := sh(t, w, "trap 'exit 3' TERM; echo up; while :; do sleep 0.02; done")
	stopped.Line(Patience)
	if code := stopped.Stop(t); code != 3 {
		t.Errorf("stopped: code %d", code)
	}
	env := sh(t, w, "env")
	env.Wait(t, Patience)
	for line := range strings.Lines(env.Stdout()) {
		key, _, _ := strings.Cut(line, "=")
		if !slices.Contains([]string{"PATH", "HOME", "TMPDIR", "LANG", "TZ", "NO_COLOR", "GOTOOLCHAIN", "GOCOVERDIR", "PWD", "OLDPWD", "SHLVL", "_"}, key) {
			t.Errorf("the caller's environment leaks: %s", line)
		}
	}
}

// TestLeftovers shows that neither a child that stayed in its group nor one
// that left it and lost its parent can hide.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	w := New(t)
	p := sh(t, w, "sleep 300 >/dev/null 2>&1 & echo $!")
	p.Wait(t, Patience)
	if left := p.leftovers(); !strings.Contains(left, "sleep 300") {
		t.Errorf("left in the group: %q", left)
	}
	if left := p.leftovers(); left != "" {
		t.Errorf("still in the group: %q", left)
	}

	gone := sh(t, w, "setsid sh -c 'echo $$; exec sleep 301 >/dev/null 2>&1' &")
	line, ok := gone.Line(Patience)
	pid, err := strconv.Atoi(string(line))
	if !ok || err != nil {
		t.Fatalf("pid %q: %v", line, err)
	}
	gone.Wait(t, Patience)
	if left := gone.leftovers(); left != "" {
		t.Errorf("setsid stayed in the group: %q", left)
	}
	Until(t, Patience, "the orphan is found", func() string {
		for _, d := range descendants() {
			if d.pid == pid && strings.Contains(d.command, "sleep 301") {
				return ""
			}
		}
		return remaining()
	})
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

func TestOutput(t *testing.T) {
	t.Parallel()
	o := newOutput()
	for range 40 {
		o.Write(bytes.Repeat([]byte("x"), shown/8))
	}
	o.Write([]byte("the end"))
	if tail := o.tail(); len(tail) != shown || !strings.HasSuffix(tail, "the end") {
		t.Errorf("tail of %d bytes", len(tail))
	}
	if line, next, more := o.line(0); line != nil || next != 0 || more == nil {
		t.Errorf("an unfinished line was given: %d bytes", len(line))
	}
	o.end()
	if _, _, more := o.line(0); more != nil {
		t.Error("more is promised after the end")
	}
	big := newOutput()
	for range keep/(1<<20) + 1 {
		big.Write(make([]byte, 1<<20))
	}
	if n := len(big.bytes()); n != keep {
		t.Errorf("kept %d bytes", n)
	}
}

// recordingTB remembers a failure instead of making it the test's.
type recordingTB struct {
	testing.TB
	failed string
}

func (r *recordingTB) Helper() {}

func (r *recordingTB) Fatalf(format string, args ...any) {
	r.failed = format
	panic(r)
}

// fails runs fn and returns the format of its Fatalf, "" without one.
func fails(t *testing.T, fn func(testing.TB)) (format string) {
	t.Helper()
	r := &recordingTB{TB: t}
	defer func() {
		if v := recover(); v != nil && v != any(r) {
			panic(v)
		}
		format = r.failed
	}()
	fn(r)
	return ""
}

func TestResult(t *testing.T) {
	t.Parallel()
	problem := `{"error":{"code":"not_found","message":"no session","hint":"run weft sessions"}}`
	for _, tc := range []struct {
		name string
		r    Result
		code int
		ok   bool
	}{
		{"as the contract says", Result{Args: []string{"x", "--json"}, Code: 5, Stderr: []byte(problem)}, 5, true},
		{"another code", Result{Args: []string{"x", "--json"}, Code: 1, Stderr: []byte(problem)}, 5, false},
		{"no hint", Result{Args: []string{"x", "--json"}, Code: 5, Stderr: []byte(`{"error":{"code":"a","message":"b"}}`)}, 5, false},
		{"no document", Result{Args: []string{"x", "--json"}, Code: 5, Stderr: []byte("no session")}, 5, false},
		{"data beside the error", Result{Args: []string{"x", "--json"}, Code: 5, Stdout: []byte("{}"), Stderr: []byte(problem)}, 5, false},
		{"crash", Result{Args: []string{"x"}, Code: 2, Stderr: []byte("panic: x")}, 2, false},
		{"plain text", Result{Args: []string{"x"}, Code: 5, Stderr: []byte("no session; run weft sessions")}, 5, true},
		{"silence", Result{Args: []string{"x"}, Code: 5}, 5, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := fails(t, func(tb testing.TB) { tc.r.Fails(tb, tc.code) }); (got == "") != tc.ok {
				t.Errorf("failed with %q", got)
			}
		})
	}
	var v struct{ A int }
	if got := fails(t, func(tb testing.TB) { Result{Stdout: []byte(`{"A":1}` + "\n")}.OK(tb).Into(tb, &v) }); got != "" || v.A != 1 {
		t.Errorf("one document: %q, %v", got, v)
	}
	for _, bad := range []string{`{"A":1}{"A":2}`, `{"A":1} trailing`, `no`, ``} {
		if got := fails(t, func(tb testing.TB) { Result{Stdout: []byte(bad)}.Into(tb, &v) }); got == "" {
			t.Errorf("%q was taken for one document", bad)
		}
	}
	if got := fails(t, func(tb testing.TB) { Result{Code: 4}.OK(tb) }); got == "" {
		t.Error("exit code 4 is ok")
	}
}

func TestUntil(t *testing.T) {
	t.Parallel()
	n := 0
	Until(t, Patience, "third look", func() string {
		if n++; n < 3 {
			return "not yet"
		}
		return ""
	})
	got := fails(t, func(tb testing.TB) { Until(tb, time.Millisecond, "never", func() string { return "still" }) })
	if got == "" {
		t.Error("an unmet condition passed")
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	w := New(t)
	there, absent := "needle-"+time.Now().Format(time.StampNano), "absent-"+time.Now().Format(time.RFC3339Nano)
	p := w.Start(t, Spec{Argv: []string{"/bin/sh", "-c", "echo up; read x"}, Env: w.Env(w.Dir, "NEEDLE="+there)})
	p.Line(Patience)
	found := Memory(t, p.PID(), [][]byte{[]byte(there), []byte(absent)})
	if diff := cmp.Diff([][]byte{[]byte(there)}, found); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}

// TestReady keeps the shape of the ready line with the contract.
func TestReady(t *testing.T) {
	t.Parallel()
	var r Ready
	line := `{"event":"ready","peerId":"12D3A","agentId":"A","addrs":["/ip4/127.0.0.1/udp/1/quic-v1","/ip4/127.0.0.1/tcp/2/p2p/12D3A"],"api":"http://127.0.0.1:3","version":"x"}`
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		t.Fatal(err)
	}
	n := &Node{Name: "n", Ready: r}
	want := []string{"/ip4/127.0.0.1/udp/1/quic-v1/p2p/12D3A", "/ip4/127.0.0.1/tcp/2/p2p/12D3A"}
	if diff := cmp.Diff(want, n.Addrs()); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	n.PinPorts(t)
	if diff := cmp.Diff([]string{"/ip4/127.0.0.1/udp/1/quic-v1", "/ip4/127.0.0.1/tcp/2"}, n.Config.Listen); diff != "" {
		t.Errorf("listen (-want +got):\n%s", diff)
	}
}

// TestSignals: Kill9 must not be softened by a handler.
func TestSignals(t *testing.T) {
	t.Parallel()
	w := New(t)
	p := sh(t, w, "trap '' TERM INT HUP; echo up; read x")
	p.Line(Patience)
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code := p.Wait(t, Patience); code != 128+9 {
		t.Errorf("code %d", code)
	}
}

func TestDisk(t *testing.T) {
	t.Parallel()
	w := New(t)
	n := &Node{Name: "small", Home: filepath.Join(w.Dir, "small")}
	d := n.OnDisk(t, 2<<20)
	file := filepath.Join(n.Home, "data")
	d.Fill(t)
	if err := os.WriteFile(file, make([]byte, 8192), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("write on a full disk: %v", err)
	}
	d.Free(t)
	if err := os.WriteFile(file, make([]byte, 8192), 0o600); err != nil {
		t.Fatal(err)
	}
}
