//go:build linux

package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weftmesh/weft/workspace"
)

// survivor starts processes that try to outlive a kill: a double fork in a
// session of its own, without the output pipe, that ignores what can be
// ignored and writes to the root as long as it lives.
const survivor = `trap '' TERM HUP INT
(setsid sh -c 'trap "" TERM HUP INT; exec >/dev/null 2>&1 </dev/null; while :; do echo x >> /work/app/alive; usleep 10000 2>/dev/null || sleep 0.01; done' &)
nohup sh -c 'trap "" TERM; while :; do echo y >> /work/app/alive2; sleep 0.01; done' >/dev/null 2>&1 &
echo started
while :; do sleep 0.05; done`

// grows waits until the survivors write.
func (b *box) grows(names ...string) {
	b.t.Helper()
	for _, n := range names {
		until(b.t, n+" is written", func() bool { i, err := os.Stat(filepath.Join(b.dir, n)); return err == nil && i.Size() > 4 })
	}
}

// still fails if a file grows over a hundred of the survivors' periods.
func (b *box) still(names ...string) {
	b.t.Helper()
	size := func(n string) int64 {
		i, err := os.Stat(filepath.Join(b.dir, n))
		if err != nil {
			b.t.Fatal(err)
		}
		return i.Size()
	}
	before := map[string]int64{}
	for _, n := range names {
		before[n] = size(n)
	}
	timer := time.NewTimer(300 * time.Millisecond)
	<-timer.C
	for _, n := range names {
		if now := size(n); now != before[n] {
			b.t.Errorf("%s is still written after the kill (%d, then %d bytes)", n, before[n], now)
		}
	}
}

// Cases 59 and 62: nothing survives, whatever it does, and it takes less than
// a second.
func TestCase59KillAll(t *testing.T) {
	t.Parallel()
	b := newBox(t, nil)
	for range 3 {
		b.start(Request{Plan: script(survivor)})
	}
	b.grows("alive", "alive2")
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := b.KillAll(ctx); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("KillAll took %s", took)
	} else {
		t.Logf("KillAll of 3 jobs took %s", took)
	}
	b.still("alive", "alive2")
	b.Runner.mu.Lock()
	jobs := append([]*job{}, b.Runner.order...)
	b.Runner.mu.Unlock()
	for _, j := range jobs {
		<-j.done
		if res := j.state(); res.State != Killed || res.Reason != reasonRevoked {
			t.Errorf("got %s", res.Header())
		}
	}
}

func TestCase59KillTermAndKill(t *testing.T) {
	t.Parallel()
	b := newBox(t, nil)
	for _, signal := range []string{"TERM", "KILL", ""} {
		job := b.start(Request{Plan: script(survivor)})
		b.grows("alive", "alive2")
		began := time.Now()
		res, err := b.Kill(context.Background(), job.Job, signal)
		if err != nil || res.State != Killed || res.Reason != reasonKilled || !strings.Contains(string(res.Output), "started") {
			t.Fatalf("%q: %v %s", signal, err, res.Header())
		}
		if took := time.Since(began); took > 4*time.Second || signal == "KILL" && took > 2*time.Second {
			t.Errorf("%q took %s", signal, took)
		}
		b.still("alive", "alive2")
		if again, err := b.Kill(context.Background(), job.Job, signal); err != nil || again.State != Killed {
			t.Errorf("a second kill: %v %s", err, again.Header())
		}
	}
	if _, err := b.Kill(context.Background(), "job-none", ""); err == nil || !strings.Contains(err.Error(), "FAILED unknown_job") {
		t.Errorf("got %v", err)
	}
	job := b.start(Request{Plan: script("sleep 20")})
	if _, err := b.Kill(context.Background(), job.Job, "STOP"); err == nil || !strings.Contains(err.Error(), "DENIED bad_arguments") {
		t.Errorf("got %v", err)
	}
}

// TERM reaches the command, which may clean up.
func TestKillTermIsPolite(t *testing.T) {
	t.Parallel()
	b := newBox(t, nil)
	job := b.start(Request{Plan: script(`trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.02; done`)})
	res, err := b.Kill(context.Background(), job.Job, "TERM")
	if err != nil || !strings.Contains(string(res.Output), "bye") {
		t.Errorf("%v %s %q", err, res.Header(), res.Output)
	}
}

// Case 59: a command that ends takes what it left in the background with it,
// and Run doesn't hang on the pipe they hold.
func TestCase59BackgroundChildren(t *testing.T) {
	t.Parallel()
	b := newBox(t, nil)
	began := time.Now()
	res := b.sh(`(while :; do echo x >> alive; sleep 0.01; done) & setsid sleep 60 & while [ ! -s alive ]; do sleep 0.01; done; echo done`)
	if res.State != Exited || string(res.Output) != "done\n" || time.Since(began) > 20*time.Second {
		t.Errorf("%s %q", res.Header(), res.Output)
	}
	b.still("alive")
}

func TestCase60Timeout(t *testing.T) {
	t.Parallel()
	b := newBox(t, nil)
	res := b.run(Request{Plan: script(survivor), Timeout: 700 * time.Millisecond})
	if res.State != Killed || res.Reason != reasonTimeout || res.Duration > 5*time.Second {
		t.Errorf("got %s", res.Header())
	}
	b.still("alive", "alive2")
	// A yielded job has its timeout too.
	job := b.start(Request{Plan: script("sleep 30"), Timeout: 800 * time.Millisecond})
	until(t, "the job ended", func() bool {
		r, err := b.Output(context.Background(), job.Job, 0, 0)
		return err == nil && r.State == Killed && r.Reason == reasonTimeout
	})
}

// Case 60: endless output is cut off and the job killed.
func TestCase60EndlessOutput(t *testing.T) {
	t.Parallel()
	b := newBox(t, nil)
	res := b.run(Request{Plan: script("yes abcdefgh; echo never")})
	if res.State != Killed || res.Reason != reasonOutput || res.Bytes > b.cfg.Limits.LogBytes || res.Bytes < b.cfg.Limits.LogBytes-1<<10 {
		t.Errorf("got %s", res.Header())
	}
	if len(res.Output) > b.cfg.Limits.MaxBytes {
		t.Errorf("%d bytes of output", len(res.Output))
	}
	if info, err := os.Stat(filepath.Join(b.cfg.StateDir, "jobs", res.Job+".log")); err != nil || info.Size() != res.Bytes {
		t.Errorf("log: %v %v", info, err)
	}
}

// Case 60: a fork bomb is bounded, and killed whole.
func TestCase60ForkBomb(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"bomb.py": `import os, sys, time
n = 0
try:
    while n < 3000:
        if os.fork() == 0:
            time.sleep(60); os._exit(0)
        n += 1
except OSError as e:
    print("stopped", n < 1024, e.strerror)
    sys.exit(0)
print("no bound", n)
`}, func(c *Config) { c.Limits.Processes = 200 })
	res := b.sh("exec python3 bomb.py")
	if os.Geteuid() == 0 && !hasPidsCgroup() {
		t.Skip("as root, with no cgroup that could be made, processes are bounded by the wall clock only")
	}
	if string(res.Output) != "stopped True Resource temporarily unavailable\n" {
		t.Errorf("%s\n%s", res.Header(), res.Output)
	}
}

func hasPidsCgroup() bool {
	c := newCgroup("probe-"+newID(), Limits{Processes: 10})
	defer c.remove()
	return c != nil
}

// Case 60: disk fillers. /tmp and /dev/shm are bounded, files have a largest
// size.
func TestCase60DiskFiller(t *testing.T) {
	t.Parallel()
	b := newBox(t, nil, func(c *Config) { c.Limits.TmpBytes, c.Limits.FileBytes = 4<<20, 8<<20 })
	res := b.sh(`for f in /tmp/x /dev/shm/x big; do dd if=/dev/zero of=$f bs=1M count=20 2>&1 | grep -o -e 'No space left'; stat -c %s $f; done; dd if=/dev/zero of=big bs=1M count=20; echo $?`)
	got := strings.Fields(string(res.Output))
	// SIGXFSZ ends what writes beyond the largest file.
	if s := strings.Join(got, " "); !strings.HasPrefix(s, "No space left 4194304 No space left 4194304 ") || !strings.Contains(s, " 8388608 ") || !strings.HasSuffix(s, " 153") {
		t.Errorf("got %q", got)
	}
	if info, err := os.Stat(filepath.Join(b.dir, "big")); err != nil || info.Size() > 8<<20 {
		t.Errorf("big: %v %v", info, err)
	}
}

// Case 60: a job that leaves the machine no memory or disk is ended.
func TestCase60MachineIsShort(t *testing.T) {
	t.Parallel()
	b := newBox(t, nil)
	b.Runner.cfg.Limits.FreeBytes = freeMemory() - 200<<20
	if freeDisk([]string{b.dir}) <= b.Runner.cfg.Limits.FreeBytes {
		t.Skip("less disk than memory is free")
	}
	res := b.run(Request{Plan: script(`exec python3 -c "
import time
x = []
for i in range(600):
    x.append(bytearray(1 << 20)); time.sleep(0.005)
time.sleep(60)"`), Timeout: 60 * time.Second})
	if res.State != Killed || res.Reason != reasonMemory {
		t.Errorf("got %s %s", res.Header(), res.Output)
	}
}

func TestJobsAreBounded(t *testing.T) {
	t.Parallel()
	b := newBox(t, nil, func(c *Config) { c.Limits.Jobs = 2 })
	b.start(Request{Plan: script("sleep 60")})
	last := b.start(Request{Plan: script("sleep 60")})
	_, err := b.Run(context.Background(), Request{Plan: script("true"), Root: "app"})
	var refusal *workspace.Refusal
	if !errors.As(err, &refusal) || refusal.Code != workspace.RateLimited || refusal.RetryAfter == 0 {
		t.Errorf("got %v", err)
	}
	if _, err := b.Kill(context.Background(), last.Job, "KILL"); err != nil {
		t.Fatal(err)
	}
	if res := b.sh("echo ok"); string(res.Output) != "ok\n" {
		t.Errorf("got %s", res.Header())
	}
}

// A cancelled call kills its command; a yielded job goes on.
func TestCancel(t *testing.T) {
	t.Parallel()
	b := newBox(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { b.grows("alive"); cancel() }()
	res, err := b.Run(ctx, Request{Plan: script(survivor), Root: "app", Yield: 30 * time.Second})
	if err != nil || res.State != Killed || res.Reason != reasonCancelled {
		t.Errorf("%v %s", err, res.Header())
	}
	b.still("alive")
}

// A stop that comes while a command is being prepared takes effect at once.
func TestKillBeforeStart(t *testing.T) {
	t.Parallel()
	b := newBox(t, nil)
	asked := make(chan struct{})
	b.Runner.cfg.Denied = func(ctx context.Context) ([]DeniedPath, error) {
		close(asked)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	ended := make(chan error, 1)
	go func() {
		_, err := b.Run(context.Background(), Request{Plan: script("true"), Root: "app"})
		ended <- err
	}()
	<-asked
	if err := b.KillAll(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "DENIED killed") {
		t.Errorf("got %v", err)
	}
}

// Close ends everything, and nothing starts after it.
func TestClose(t *testing.T) {
	t.Parallel()
	b := newBox(t, nil)
	b.start(Request{Plan: script(survivor)})
	b.grows("alive")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b.still("alive")
	if _, err := b.Run(context.Background(), Request{Plan: script("true"), Root: "app"}); err == nil || !strings.Contains(err.Error(), "DENIED killed") {
		t.Errorf("got %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(b.cfg.StateDir, "jobs", "*")); len(left) != 0 {
		t.Errorf("logs left: %q", left)
	}
}

// Case 74 from this side: when the node is killed, so is what it runs. The
// test binary starts itself as a node that runs a survivor, and kills it.
func TestCase59NodeKilled(t *testing.T) {
	sandbox(t)
	dir := tempDir(t)
	node := exec.Command(os.Args[0], "-test.run=^TestNodeProcess$", "-test.v")
	node.Env = append(os.Environ(), "WEFT_TEST_NODE="+dir, "WEFT_TEST_STATE="+filepath.Join(tempDir(t), "state"))
	out, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.Contains(lines.Text(), "node is running a job") {
	}
	b := &box{t: t, dir: dir}
	b.grows("alive", "alive2")
	if err := node.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	node.Wait()
	// The kernel delivers the parent's death to bubblewrap, its init, the rest.
	var last int64 = -1
	until(t, "the survivors are dead", func() bool {
		i, err := os.Stat(filepath.Join(dir, "alive"))
		if err != nil {
			return false
		}
		timer := time.NewTimer(100 * time.Millisecond)
		<-timer.C
		same := i.Size() == last
		last = i.Size()
		return same
	})
	b.still("alive", "alive2")
}

// TestNodeProcess is the node of TestCase59NodeKilled; it ends by being killed.
func TestNodeProcess(t *testing.T) {
	dir := os.Getenv("WEFT_TEST_NODE")
	if dir == "" {
		t.Skip("run by TestCase59NodeKilled")
	}
	r, err := NewRunner(Config{Roots: []Mount{{Name: "app", HostDir: dir, Writable: true}}, StateDir: os.Getenv("WEFT_TEST_STATE"), Allowed: []Allowed{{Argv: []string{"sh"}}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Run(context.Background(), Request{Plan: script(survivor), Root: "app", Yield: minYield}); err != nil {
		t.Fatal(err)
	}
	fmt.Println("node is running a job")
	select {}
}

// Without a sandbox, too, a kill reaches what left the process group.
func TestBareKill(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	r, err := NewRunner(Config{Roots: []Mount{{Name: "app", HostDir: dir, Writable: true}}, StateDir: filepath.Join(tempDir(t), "s"),
		Allowed: []Allowed{{Argv: []string{"sh"}}}, Unsandboxed: true})
	if err != nil {
		t.Fatal(err)
	}
	r.sandbox = Sandbox{Kind: "none"}
	b := &box{Runner: r, t: t, dir: dir}
	defer r.Close()
	b.start(Request{Plan: script(strings.ReplaceAll(survivor, "/work/app", dir))})
	b.grows("alive")
	if err := r.KillAll(context.Background()); err != nil {
		t.Fatal(err)
	}
	b.still("alive")
}
