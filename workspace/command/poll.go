package command

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/weftmesh/weft/workspace"
)

// killGrace is how long a job that was asked to end may take before it is
// ended.
const killGrace = 1500 * time.Millisecond

// find returns a job by its handle.
func (r *Runner) find(id string) (*job, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if j, ok := r.jobs[id]; ok {
		return j, nil
	}
	return nil, workspace.Fail("unknown_job", "there is no job %.40q in this session, or it ended long ago", id)
}

// Output returns the output of a job from the byte cursor after, and waits up
// to wait for there to be some. The same cursor gives the same bytes (and more,
// if there are more by then). The error is a *workspace.Refusal or a
// *workspace.Failure.
func (r *Runner) Output(ctx context.Context, id string, after int64, wait time.Duration) (Result, error) {
	j, err := r.find(id)
	if err != nil {
		return Result{}, err
	}
	timer := time.NewTimer(min(max(wait, 0), maxYield))
	defer timer.Stop()
	for {
		j.mu.Lock()
		size, more := j.size, j.more
		j.mu.Unlock()
		ended := j.ended()
		if after < 0 || after > size {
			return Result{}, workspace.Refuse(workspace.BadArguments, "after=%d, but there are %d bytes so far", after, size)
		}
		if size > after || ended || wait <= 0 {
			break
		}
		select {
		case <-more:
		case <-j.done:
		case <-timer.C:
			wait = 0
		case <-ctx.Done():
			return Result{}, workspace.Fail("cancelled", "the call was cancelled; the job goes on")
		}
	}
	res := j.state()
	limit := r.maxBytes(0)
	p, err := j.read(after, limit+utf8.UTFMax)
	if err != nil {
		return Result{}, r.explain(ctx, fmt.Errorf("read the job's log: %w", err))
	}
	p = p[:min(int64(len(p)), res.Bytes-after)]
	switch {
	case len(p) > limit:
		p = p[:runeStart(p, limit)]
	case res.State == Running:
		p = p[:completeRunes(p)]
	}
	res.Output, res.Next = p, after+int64(len(p))
	return res, nil
}

// completeRunes is the length of p without a UTF-8 sequence that isn't whole.
func completeRunes(p []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(p); back++ {
		if c := p[len(p)-back]; utf8.RuneStart(c) {
			if c >= 0xc0 && !utf8.FullRune(p[len(p)-back:]) {
				return len(p) - back
			}
			break
		}
	}
	return len(p)
}

// state is the result so far, without output.
func (j *job) state() Result {
	ended := j.ended()
	j.mu.Lock()
	defer j.mu.Unlock()
	res := Result{Job: j.id, State: Running, Duration: time.Since(j.started), Sandbox: j.sandbox, Executable: j.executable}
	if ended {
		res = j.final
	}
	res.Bytes, res.Redacted = j.size, j.redacted
	return res
}

// result is the state with the head (a fifth) and the tail of the output, in
// at most limit bytes including the line between them.
func (j *job) result(limit int) (Result, error) {
	res := j.state()
	res.Next = res.Bytes
	if res.Bytes <= int64(limit) {
		p, err := j.read(0, int(res.Bytes))
		if err != nil {
			return Result{}, workspace.Fail("internal", "the job's log can't be read")
		}
		if res.State == Running {
			p = p[:completeRunes(p)]
			res.Next = int64(len(p))
		}
		res.Output = p
		return res, nil
	}
	const room = 120 // for the line between
	budget := max(limit-room, 0)
	head, err := j.read(0, min(budget/5+utf8.UTFMax, int(res.Bytes)))
	if err != nil {
		return Result{}, workspace.Fail("internal", "the job's log can't be read")
	}
	head = head[:runeStart(head, budget/5)]
	from := res.Bytes - int64(budget-budget/5)
	tail, err := j.read(from, budget-budget/5)
	if err != nil {
		return Result{}, workspace.Fail("internal", "the job's log can't be read")
	}
	skip := tailStart(tail)
	tail, from = tail[skip:], from+int64(skip)
	if res.State == Running {
		cut := len(tail) - completeRunes(tail)
		tail, res.Next = tail[:len(tail)-cut], res.Next-int64(cut)
	}
	res.Dropped = from - int64(len(head))
	line := fmt.Sprintf("\n[... %d bytes left out; job_output job=%s after=%d has them ...]\n", res.Dropped, j.id, len(head))
	if limit < room {
		line = ""
	}
	res.Output = append(append(head, line...), tail...)
	return res, nil
}

// tailStart skips the rest of a UTF-8 sequence that was cut at the start of p.
func tailStart(p []byte) int {
	for i := range min(utf8.UTFMax-1, len(p)) {
		if utf8.RuneStart(p[i]) {
			return i
		}
	}
	return 0
}

// Kill ends a job and everything it started. "TERM", the default, asks first
// and ends what is left after 1.5 s; "KILL" ends it at once. It returns the
// final result, within two seconds and the time of the scan for changes.
func (r *Runner) Kill(ctx context.Context, id, signal string) (Result, error) {
	j, err := r.find(id)
	if err != nil {
		return Result{}, err
	}
	switch signal {
	case "KILL", "TERM", "":
	default:
		return Result{}, workspace.Refuse(workspace.BadArguments, "signal %.20q; want TERM or KILL", signal)
	}
	if !j.ended() && signal != "KILL" {
		j.mu.Lock()
		if j.killed == "" {
			j.killed = reasonKilled
		}
		p := j.proc
		j.mu.Unlock()
		if p != nil {
			p.term()
		}
		timer := time.NewTimer(killGrace)
		defer timer.Stop()
		select {
		case <-j.dead:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	j.stop(reasonKilled)
	<-j.done
	return j.result(r.maxBytes(0))
}
