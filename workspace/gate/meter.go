package gate

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/weftmesh/weft/workspace"
)

// Budget is what a session may use in all.
type Budget struct {
	Calls, ReadBytes, WriteBytes int64
	// Rate overrides the built-in calls a minute when positive.
	Rate int64
}

// Used is what a session has used, as it is stored and shown.
type Used struct {
	Calls, Allowed, Refused int64
	ReadBytes, WriteBytes   int64
}

// Meter counts a session's use against its budget. It is safe for concurrent
// use; time is passed in, so tests need no clock.
type Meter struct {
	budget Budget

	mu       sync.Mutex // guards below
	used     Used
	reserved int64 // bytes of writes that are under way
	limiters [3]*rate.Limiter
	per      [3]float64
}

// NewMeter starts from what was used before a restart.
func NewMeter(b Budget, used Used) *Meter {
	m := &Meter{budget: b, used: used}
	for class, r := range rates {
		per, burst := r.perMinute, r.burst
		if b.Rate > 0 {
			per, burst = float64(b.Rate), int(min(b.Rate, 10_000))
		}
		m.per[class] = per
		m.limiters[class] = rate.NewLimiter(rate.Limit(per/60), burst)
		if b.Rate > 0 { // one rate over all tools
			m.limiters[class] = m.limiters[0]
		}
	}
	return m
}

// Take counts one call and says whether the budget refuses it.
func (m *Meter) Take(class Class, now time.Time) *workspace.Refusal {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used.Calls++
	switch {
	case m.used.Calls > m.budget.Calls:
		return workspace.Refuse(workspace.RateLimited, "the session's %d calls are used up", m.budget.Calls)
	case m.used.ReadBytes >= m.budget.ReadBytes: // every answer is bytes that leave
		return workspace.Refuse(workspace.RateLimited, "the session's %d bytes of reading are used up", m.budget.ReadBytes)
	case m.used.WriteBytes >= m.budget.WriteBytes && class == Writes:
		return workspace.Refuse(workspace.RateLimited, "the session's %d bytes of writing are used up", m.budget.WriteBytes)
	case !m.limiters[class].AllowN(now, 1):
		r := workspace.Refuse(workspace.RateLimited, "more than %d calls a minute", int(m.per[class]))
		r.RetryAfter = retry(m.per[class])
		return r
	}
	return nil
}

// Reserve holds n bytes of the write budget for a call until Done, so that
// calls side by side can't spend the same bytes.
func (m *Meter) Reserve(n int64) *workspace.Refusal {
	m.mu.Lock()
	defer m.mu.Unlock()
	if left := m.budget.WriteBytes - m.used.WriteBytes - m.reserved; n > left {
		return workspace.Refuse(workspace.RateLimited, "%d bytes of writing left in this session", max(left, 0))
	}
	m.reserved += n
	return nil
}

// Done records how a call ended and gives back what was reserved for it.
func (m *Meter) Done(refused bool, read, written, reserved int64) Used {
	m.mu.Lock()
	defer m.mu.Unlock()
	if refused {
		m.used.Refused++
	} else {
		m.used.Allowed++
	}
	m.used.ReadBytes += read
	m.used.WriteBytes += written
	m.reserved -= reserved
	return m.used
}

// Used returns the counts so far.
func (m *Meter) Used() Used {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// Left returns what remains, never negative.
func (m *Meter) Left() (calls, read, write int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(0, m.budget.Calls-m.used.Calls), max(0, m.budget.ReadBytes-m.used.ReadBytes), max(0, m.budget.WriteBytes-m.used.WriteBytes)
}
