package command

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/redact"
)

// job is one command from the moment it is admitted. Its goroutines are the
// pump, which reads output, the guard, which enforces the bounds, and the
// finisher, which waits for the end; Runner.Close waits for all three.
type job struct {
	id      string
	runner  *Runner
	started time.Time
	sandbox string

	executable string
	before     *footprint

	dead chan struct{} // closed when no process is left, or none ever was
	done chan struct{} // closed when the result is final

	abort    context.CancelFunc // ends what is done before the start
	telling  sync.Mutex         // held while progress is called, so that quiet waits for it
	progress func([]byte)       // guarded by telling

	mu       sync.Mutex // guards below
	proc     process    // nil until started
	killed   string     // why we kill it, "" if we don't
	log      *os.File   // redacted output
	size     int64      // of log
	redacted int
	more     chan struct{} // closed and replaced when log grows
	final    Result        // set before done is closed
}

// newID is the random part of a job's handle.
func newID() string {
	var b [6]byte
	rand.Read(b[:])
	return fmt.Sprintf("%x", b)
}

// keptJobs bounds the finished jobs that can be polled.
const keptJobs = 64

// admit reserves one of the slots.
func (r *Runner) admit(q *Request, abort context.CancelFunc) (*job, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, workspace.Refuse(workspace.Killed, "the session has ended")
	}
	running := 0
	for _, j := range r.order {
		if !j.ended() {
			running++
		}
	}
	if running >= r.cfg.Limits.Jobs {
		refusal := workspace.Refuse(workspace.RateLimited, "%d commands are running, the limit is %d; wait for one (job_output) or end one (job_kill)", running, r.cfg.Limits.Jobs)
		refusal.RetryAfter = time.Second
		return nil, refusal
	}
	r.evict()
	j := &job{id: "job-" + newID(), runner: r, started: time.Now(), progress: q.Progress, sandbox: "none", abort: abort,
		dead: make(chan struct{}), done: make(chan struct{}), more: make(chan struct{})}
	var err error
	if j.log, err = os.OpenFile(filepath.Join(r.cfg.StateDir, "jobs", j.id+".log"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return nil, fmt.Errorf("log of the job: %w", err)
	}
	r.jobs[j.id] = j
	r.order = append(r.order, j)
	return j, nil
}

// evict forgets the oldest finished jobs beyond what is kept. r.mu is held.
func (r *Runner) evict() {
	kept, total := 0, int64(0)
	for i := len(r.order) - 1; i >= 0; i-- {
		j := r.order[i]
		if !j.ended() {
			continue
		}
		j.mu.Lock()
		total += j.size
		j.mu.Unlock()
		if kept++; kept >= keptJobs || total > r.cfg.Limits.KeptBytes {
			j.forget()
			delete(r.jobs, j.id)
			r.order = append(r.order[:i], r.order[i+1:]...)
		}
	}
}

// drop takes back a job that didn't start.
func (r *Runner) drop(j *job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	j.forget()
	delete(r.jobs, j.id)
	for i := range r.order {
		if r.order[i] == j {
			r.order = append(r.order[:i], r.order[i+1:]...)
			break
		}
	}
	close(j.dead)
	close(j.done)
}

func (j *job) forget() {
	j.log.Close()
	os.Remove(j.log.Name())
}

func (j *job) ended() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// stop kills the job for a reason; the first reason stands.
func (j *job) stop(reason string) {
	j.mu.Lock()
	if j.killed == "" {
		j.killed = reason
	}
	p := j.proc
	j.mu.Unlock()
	j.abort()
	if p != nil {
		p.kill()
	}
}

// stopped reports whether the job is to be killed.
func (j *job) stopped() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.killed != ""
}

// begin starts the process and the goroutines.
func (r *Runner) begin(j *job, q *Request, l launch, m *mounts) error {
	if j.stopped() {
		return errNotRun
	}
	out, in, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("pipe for output: %w", err)
	}
	l.out = in
	var feed *os.File
	if len(q.Stdin) > 0 {
		if l.stdin, feed, err = os.Pipe(); err != nil {
			out.Close()
			in.Close()
			return fmt.Errorf("pipe for input: %w", err)
		}
	}
	p, err := r.open(l, m)
	in.Close()
	if l.stdin != nil {
		l.stdin.Close()
	}
	if err != nil {
		out.Close()
		if feed != nil {
			feed.Close()
		}
		if errors.Is(err, errNotRun) {
			return fmt.Errorf("make the sandbox: %w", err)
		}
		return err
	}
	if r.sandbox.Available {
		j.sandbox = r.sandbox.Kind
	}
	j.mu.Lock()
	j.proc = p
	late := j.killed != ""
	j.mu.Unlock()
	if late {
		p.kill()
	}
	if feed != nil {
		r.work.Go(func() {
			feed.SetWriteDeadline(time.Now().Add(r.cfg.Limits.MaxTimeout))
			feed.Write(q.Stdin) // a command that doesn't read it all is no error
			feed.Close()
		})
	}
	timeout := q.Timeout
	if timeout <= 0 {
		timeout = r.cfg.Limits.Timeout
	}
	set := r.secrets()
	pumped := make(chan struct{})
	r.work.Go(func() { defer close(pumped); j.pump(out, set) })
	r.work.Go(func() { j.guard(min(timeout, r.cfg.Limits.MaxTimeout)) })
	r.work.Go(func() { j.finish(p, out, pumped) })
	return nil
}

func (r *Runner) secrets() *redact.Set {
	if r.cfg.Redact == nil {
		return nil
	}
	return r.cfg.Redact()
}

// pump reads output until no process holds the pipe.
func (j *job) pump(out *os.File, set *redact.Set) {
	stream, paths := set.Stream(), newRewriter(j.runner.rules)
	buf := make([]byte, 32<<10)
	raw := int64(0)
	for {
		n, err := out.Read(buf)
		if raw += int64(n); raw > j.runner.cfg.Limits.LogBytes {
			n -= int(min(int64(n), raw-j.runner.cfg.Limits.LogBytes))
			j.stop(reasonOutput) // and go on reading, so that nothing blocks until it is dead
		}
		if n > 0 {
			j.store(paths.write(stream.Write(buf[:n]), false), stream.Count())
		}
		if err != nil {
			break
		}
	}
	tail := append([]byte{}, paths.write(stream.Flush(), true)...)
	j.store(tail, stream.Count())
	out.Close()
}

// store appends redacted output.
func (j *job) store(p []byte, redacted int) {
	j.mu.Lock()
	_, err := j.log.WriteAt(p, j.size)
	if err == nil {
		j.size += int64(len(p))
	}
	j.redacted = redacted
	close(j.more)
	j.more = make(chan struct{})
	j.mu.Unlock()
	if err != nil {
		j.stop(reasonDisk)
		return
	}
	j.telling.Lock()
	defer j.telling.Unlock()
	if j.progress != nil && len(p) > 0 {
		j.progress(p)
	}
}

// quiet ends the progress calls.
func (j *job) quiet() {
	j.telling.Lock()
	defer j.telling.Unlock()
	j.progress = nil
}

// read returns up to n bytes of the log from offset at.
func (j *job) read(at int64, n int) ([]byte, error) {
	buf := make([]byte, n)
	got, err := j.log.ReadAt(buf, at)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return buf[:got], err
}
