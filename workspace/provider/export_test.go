package provider

import "time"

// SetLongest makes calls without a deadline wait less.
func (s *Session) SetLongest(d time.Duration) { s.longest = d }

// Waiting is how many calls wait for an answer, and how many openings of calls
// that were given up are kept.
func (s *Session) Waiting() (pending, left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pending), len(s.left)
}
