package sessionlog

import (
	"fmt"
	"maps"
)

// MaxRecords bounds one session's log, and so the memory it takes (about 200
// bytes a record). The last reserve are kept for results and the end.
const (
	MaxRecords = 1 << 18
	reserve    = 4096
)

// maxTools bounds the distinct tools of a log; ours has under twenty.
const maxTools = 64

// Counts is how often each tool ended with each verdict.
type Counts map[string]map[Verdict]uint64

// Totals is what a log says in sum. A receipt repeats it, and anybody who has
// the log can count again.
type Totals struct {
	Session string
	// Grant, OpenedAt and Sandbox come from the opened record.
	Grant    string
	OpenedAt int64
	Sandbox  string
	// End is the type of the record that ended the session, "" while it runs,
	// and ClosedAt its time.
	End      Type
	ClosedAt int64
	Records  uint64
	// Calls is the number of call records; Counts splits them. A call without
	// a result counts as unknown.
	Calls   uint64
	Counts  Counts
	Unknown uint64
	// BytesRead and BytesWritten are the sums of Bytes and Written.
	BytesRead, BytesWritten int64
	Redacted                int64
}

// tally applies the rules of order to records and sums them up.
type tally struct {
	totals Totals
	// calls holds every allowed call id: its tool while the result is open, ""
	// afterwards.
	calls map[string]string
	open  map[string]uint64 // calls without a result, by tool
	last  Record            // the record before, for a denied call's result
}

func newTally(session string) *tally {
	return &tally{
		totals: Totals{Session: session, Counts: Counts{}},
		calls:  map[string]string{},
		open:   map[string]uint64{},
	}
}

// add checks that r may come next and counts it. undo takes it back; undos are
// called in reverse order.
func (t *tally) add(r Record) (undo func(), err error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: record %d: %s", ErrRecord, r.Seq, fmt.Sprintf(format, args...))
	}
	before := t.totals
	prev := t.last
	switch {
	case r.Session != t.totals.Session:
		return nil, bad("of another session")
	case r.Seq != t.totals.Records:
		return nil, bad("the next is %d", t.totals.Records)
	case t.totals.End != "":
		return nil, bad("after the end of the session")
	case (r.Type == Opened) != (r.Seq == 0):
		return nil, bad("a log begins with its one opened record")
	}
	after := func() {}
	switch r.Type {
	case Opened:
		t.totals.Grant, t.totals.OpenedAt, t.totals.Sandbox = r.Grant, r.Time, r.Note
	case Call:
		after, err = t.addCall(r, bad)
	case Result:
		after, err = t.addResult(r, prev, bad)
	case Closed, Killed, Expired, Aborted:
		if t.totals.End != "" {
			return nil, bad("the session ended before")
		}
		t.totals.End, t.totals.ClosedAt = r.Type, r.Time
	case Paused, Resumed:
		if t.totals.End != "" {
			return nil, bad("the session ended before")
		}
	}
	if err != nil {
		return nil, err
	}
	t.totals.Records++
	t.last = Record{Type: r.Type, Call: r.Call, Tool: r.Tool, Verdict: r.Verdict}
	return func() { after(); t.totals, t.last = before, prev }, nil
}

func (t *tally) addCall(r Record, bad func(string, ...any) error) (func(), error) {
	if _, known := t.totals.Counts[r.Tool]; !known && t.open[r.Tool] == 0 && len(t.totals.Counts)+len(t.open) >= maxTools {
		return nil, bad("more than %d different tools", maxTools)
	}
	if r.Verdict == Denied {
		t.totals.Calls++
		return t.count(r.Tool, Denied), nil
	}
	if t.totals.End != "" {
		return nil, bad("allowed after the session ended")
	}
	if _, again := t.calls[r.Call]; again {
		return nil, bad("call %s was allowed before", r.Call)
	}
	t.totals.Calls++
	t.totals.Unknown++
	t.calls[r.Call] = r.Tool
	t.open[r.Tool]++
	return func() { delete(t.calls, r.Call); t.less(r.Tool) }, nil
}

func (t *tally) addResult(r, prev Record, bad func(string, ...any) error) (func(), error) {
	// A refusal needs no result record. One right behind it is harmless and
	// changes no count.
	if r.Verdict == Denied && prev.Type == Call && prev.Verdict == Denied && prev.Call == r.Call && prev.Tool == r.Tool {
		return func() {}, nil
	}
	tool := t.calls[r.Call]
	if tool == "" || tool != r.Tool {
		return nil, bad("no open call %s of %s", r.Call, r.Tool)
	}
	if r.Bytes > maxInteger-t.totals.BytesRead || r.Written > maxInteger-t.totals.BytesWritten {
		return nil, bad("byte counters beyond 2^53")
	}
	t.calls[r.Call] = ""
	t.less(tool)
	if r.Verdict != Unknown {
		t.totals.Unknown--
	}
	t.totals.BytesRead += r.Bytes
	t.totals.BytesWritten += r.Written
	t.totals.Redacted += int64(r.Redacted)
	uncount := t.count(tool, r.Verdict)
	return func() { uncount(); t.calls[r.Call] = tool; t.open[tool]++ }, nil
}

// count adds one and returns how to take it away.
func (t *tally) count(tool string, v Verdict) func() {
	c := t.totals.Counts
	if c[tool] == nil {
		c[tool] = map[Verdict]uint64{}
	}
	c[tool][v]++
	return func() {
		if c[tool][v]--; c[tool][v] == 0 {
			delete(c[tool], v)
		}
		if len(c[tool]) == 0 {
			delete(c, tool)
		}
	}
}

func (t *tally) less(tool string) {
	if t.open[tool]--; t.open[tool] == 0 {
		delete(t.open, tool)
	}
}

// sum is a copy of the totals with the open calls counted as unknown.
func (t *tally) sum() Totals {
	out := t.totals
	out.Counts = Counts{}
	for tool, byVerdict := range t.totals.Counts {
		out.Counts[tool] = maps.Clone(byVerdict)
	}
	for tool, n := range t.open {
		if out.Counts[tool] == nil {
			out.Counts[tool] = map[Verdict]uint64{}
		}
		out.Counts[tool][Unknown] += n
	}
	return out
}

// Replay checks a whole log: that each leaf is the one encoding of a valid
// record, in its place and of this session. It keeps no leaf.
type Replay struct {
	tree  tree
	tally *tally
}

// NewReplay starts at the log's first record.
func NewReplay(session string) *Replay { return &Replay{tally: newTally(session)} }

// Add takes the next leaf.
func (p *Replay) Add(leaf []byte) (Record, error) {
	r, err := Decode(leaf)
	if err != nil {
		return Record{}, err
	}
	if _, err := p.tally.add(r); err != nil {
		return Record{}, err
	}
	p.tree.push(leafHash(leaf))
	return r, nil
}

// Head is the head of what was added.
func (p *Replay) Head() Head { return p.tree.head(p.tree.size()) }

// Totals is the count of what was added.
func (p *Replay) Totals() Totals { return p.tally.sum() }
