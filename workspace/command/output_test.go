package command

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/weftmesh/weft/workspace/redact"
)

// Cases 34 and 35: known values are redacted in stdout, stderr and between
// them, over chunks, polls and colours.
func TestCase35Redaction(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"copy": "KEY=" + hunter + "\n"}, func(c *Config) {
		c.Redact = func() *redact.Set { return redact.New([]redact.Secret{{Value: []byte(hunter)}}) }
	})
	for name, text := range map[string]string{
		"cat":           "cat copy",
		"stderr":        "cat copy >&2",
		"two writes":    "printf hunter2-; sleep 0.1; printf Correct9",
		"both streams":  "printf hunter2- ; printf Correct9 >&2",
		"base64":        "base64 copy",
		"hex":           "od -An -tx1 -v copy | tr -d ' \\n'",
		"reversed":      "rev copy",
		"one a line":    "fold -w1 copy",
		"colour":        `printf 'hunt\033[31mer2-Cor\033[0mrect9'`,
		"grep -r":       "grep -r KEY .",
		"tar":           "tar cf - copy | strings",
		"python repr":   `python3 -c "print(repr(open('copy').read()))"`,
		"carriage":      `printf 'hunter2-\rCorrect9'`,
		"wrapped":       "fold -w5 copy",
		"end of stream": "printf hunter2-Correct9",
	} {
		res := b.sh(text)
		if s := string(res.Output); strings.Contains(strings.ReplaceAll(s, "\n", ""), "hunter2") || strings.Contains(s, "Correct9") || !strings.Contains(s, redact.Placeholder) || res.Redacted == 0 {
			t.Errorf("%s: %s %q", name, res.Header(), s)
		}
		log, err := os.ReadFile(filepath.Join(b.cfg.StateDir, "jobs", res.Job+".log"))
		if err != nil || bytes.Contains(log, []byte("hunter2")) || bytes.Contains(log, []byte("Correct9")) {
			t.Errorf("%s: the stored log has it: %q %v", name, log, err)
		}
	}
}

// Case 35 across polls: a secret whose halves come in different polls.
func TestCase35AcrossPolls(t *testing.T) {
	t.Parallel()
	b := newBox(t, nil, func(c *Config) {
		c.Redact = func() *redact.Set { return redact.New([]redact.Secret{{Value: []byte(hunter)}}) }
	})
	job := b.start(Request{Plan: script("printf 'start hunter2-'; while [ ! -e go ]; do sleep 0.02; done; printf 'Correct9 end'")})
	if s := string(job.Output); s != "start " {
		t.Errorf("before: %q", s)
	}
	b.put(map[string]string{"go": ""})
	var all []byte
	for {
		res, err := b.Output(context.Background(), job.Job, int64(len(all)), 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, res.Output...)
		if res.Next != int64(len(all)) {
			t.Fatalf("cursor %d after %d bytes", res.Next, len(all))
		}
		if res.State != Running && len(res.Output) == 0 {
			break
		}
	}
	if want := "start " + redact.Placeholder + " end"; string(all) != want {
		t.Errorf("got %q, want %q", all, want)
	}
}

// Polling by cursor is idempotent and complete.
func TestOutputByCursor(t *testing.T) {
	t.Parallel()
	b := newBox(t, nil, func(c *Config) { c.Limits.MaxBytes = 1000 })
	res := b.sh("i=0; while [ $i -lt 2000 ]; do echo line $i ü; i=$((i+1)); done")
	if res.Bytes < 20000 || res.Dropped == 0 || len(res.Output) > 1000 || !utf8.Valid(res.Output) {
		t.Errorf("%s, %d bytes of output", res.Header(), len(res.Output))
	}
	if s := string(res.Output); !strings.HasPrefix(s, "line 0 ü\n") || !strings.HasSuffix(s, "line 1999 ü\n") || !strings.Contains(s, "bytes left out; job_output job="+res.Job) {
		t.Errorf("head and tail: %q", s)
	}
	head := strings.Index(string(res.Output), "\n[... ")
	if head < 150 || head > 200 {
		t.Errorf("the head has %d bytes of 1000", head)
	}
	var all []byte
	for at := int64(0); ; {
		one, err := b.Output(context.Background(), res.Job, at, 0)
		if err != nil {
			t.Fatal(err)
		}
		two, err := b.Output(context.Background(), res.Job, at, 0)
		if err != nil || !bytes.Equal(one.Output, two.Output) || one.Next != two.Next {
			t.Fatalf("not idempotent at %d: %v", at, err)
		}
		if len(one.Output) > 1000 || !utf8.Valid(one.Output) {
			t.Fatalf("%d bytes, valid %v", len(one.Output), utf8.Valid(one.Output))
		}
		if len(one.Output) == 0 {
			break
		}
		all = append(all, one.Output...)
		at = one.Next
	}
	if int64(len(all)) != res.Bytes || strings.Count(string(all), "\n") != 2000 {
		t.Errorf("%d bytes polled, %d stored", len(all), res.Bytes)
	}
	for _, at := range []int64{-1, res.Bytes + 1} {
		if _, err := b.Output(context.Background(), res.Job, at, 0); err == nil || !strings.Contains(err.Error(), "DENIED bad_arguments") {
			t.Errorf("after=%d: %v", at, err)
		}
	}
	if _, err := b.Output(context.Background(), "nope", 0, 0); err == nil || !strings.Contains(err.Error(), "FAILED unknown_job") {
		t.Errorf("got %v", err)
	}
}

// Output waits for new bytes, not longer than asked.
func TestOutputWaits(t *testing.T) {
	t.Parallel()
	b := newBox(t, nil)
	job := b.start(Request{Plan: script("echo one; while [ ! -e go ]; do sleep 0.02; done; echo two; sleep 60")})
	if string(job.Output) != "one\n" {
		t.Fatalf("got %q", job.Output)
	}
	began := time.Now()
	res, err := b.Output(context.Background(), job.Job, job.Next, 300*time.Millisecond)
	if err != nil || len(res.Output) != 0 || time.Since(began) < 250*time.Millisecond || res.State != Running {
		t.Errorf("%v %s %q after %s", err, res.Header(), res.Output, time.Since(began))
	}
	b.put(map[string]string{"go": ""})
	if res, err = b.Output(context.Background(), job.Job, job.Next, 20*time.Second); err != nil || string(res.Output) != "two\n" {
		t.Errorf("%v %q", err, res.Output)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err = b.Output(ctx, job.Job, res.Next, 20*time.Second); err == nil || !strings.Contains(err.Error(), "FAILED cancelled") {
		t.Errorf("got %v", err)
	}
}

func TestExitCodesAndSignals(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"s.sh": "#!/bin/sh\necho script $1\n"})
	if res := b.sh("exit 7"); res.State != Exited || res.Exit != 7 || res.Signal != "" {
		t.Errorf("got %s", res.Header())
	}
	if res := b.sh("kill -SEGV $$"); res.State != Exited || res.Signal != "SEGV" || res.Exit != 139 {
		t.Errorf("got %s", res.Header())
	}
	if res := b.run(Request{Plan: exactPlan([]string{"./s.sh", "a b"})}); string(res.Output) != "script a b\n" {
		t.Errorf("%s %q", res.Header(), res.Output)
	}
	if res := b.run(Request{Plan: exactPlan([]string{"./missing"})}); res.State != Exited || res.Exit != 127 || strings.Contains(string(res.Output), b.dir) {
		t.Errorf("%s %q", res.Header(), res.Output)
	}
	res := b.run(Request{Plan: script("cat; pwd"), Stdin: []byte("from stdin\n")})
	if string(res.Output) != "from stdin\napp\n" {
		t.Errorf("got %q", res.Output)
	}
	if res := b.run(Request{Plan: script("true"), Stdin: make([]byte, maxStdin)}); res.Exit != 0 {
		t.Errorf("stdin that isn't read: %s", res.Header())
	}
	if _, err := b.Run(context.Background(), Request{Plan: script("true"), Root: "app", Stdin: make([]byte, maxStdin+1)}); err == nil || !strings.Contains(err.Error(), "DENIED too_large") {
		t.Errorf("got %v", err)
	}
	for cwd, want := range map[string]string{"nope": "FAILED not_directory", "s.sh": "FAILED not_directory", "../x": "DENIED bad_path", "/etc": "DENIED bad_path"} {
		if _, err := b.Run(context.Background(), Request{Plan: script("true"), Root: "app", Cwd: cwd}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("cwd %q: %v", cwd, err)
		}
	}
	os.Symlink("/etc", filepath.Join(b.dir, "out"))
	if _, err := b.Run(context.Background(), Request{Plan: script("true"), Root: "app", Cwd: "out"}); err == nil || !strings.HasPrefix(err.Error(), "FAILED not_directory") {
		t.Errorf("cwd through a link that leaves the root: %v", err)
	}
	if _, err := b.Run(context.Background(), Request{Plan: script("true"), Root: "other"}); err == nil || !strings.HasPrefix(err.Error(), "DENIED outside_grant") {
		t.Errorf("got %v", err)
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	b := newBox(t, nil)
	var mu sync.Mutex
	var seen []byte
	res := b.run(Request{Plan: script("echo one; sleep 0.05; echo two"), Progress: func(p []byte) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, p...)
	}})
	mu.Lock()
	defer mu.Unlock()
	if !bytes.Equal(seen, res.Output) || string(seen) != "one\ntwo\n" {
		t.Errorf("seen %q, output %q", seen, res.Output)
	}
}

func TestRuneBoundaries(t *testing.T) {
	t.Parallel()
	s := []byte("aü€😀\xffz")
	for i := range len(s) + 2 {
		at, end := runeStart(s, i), min(i, len(s))
		if at > end || end-at > 3 || !utf8.Valid(bytes.TrimSuffix(s[:at], []byte("\xff"))) && at < 11 {
			t.Errorf("runeStart(%d) = %d", i, at)
		}
	}
	for in, want := range map[string]int{"": 0, "a": 1, "a\xc3": 1, "a\xe2\x82": 1, "a\xf0\x9f\x98": 1, "aü": 3, "\xff": 1, "\x80\x80": 2, "a\xe2": 1} {
		if got := completeRunes([]byte(in)); got != want {
			t.Errorf("completeRunes(%q) = %d, want %d", in, got, want)
		}
	}
}

// Finished jobs are kept within bounds, the newest longest.
func TestOldJobsAreForgotten(t *testing.T) {
	t.Parallel()
	b := newBox(t, nil, func(c *Config) { c.Limits.KeptBytes = 3000 })
	first := b.sh("head -c 2000 /dev/zero | tr '\\0' a")
	second := b.sh("head -c 2000 /dev/zero | tr '\\0' b")
	b.sh("echo third")
	if _, err := b.Output(context.Background(), first.Job, 0, 0); err == nil {
		t.Error("the oldest log is kept beyond the bound")
	}
	if res, err := b.Output(context.Background(), second.Job, 0, 0); err != nil || len(res.Output) != 2000 {
		t.Errorf("%v, %d bytes", err, len(res.Output))
	}
}
