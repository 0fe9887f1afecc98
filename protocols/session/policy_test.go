package session

import (
	"errors"
	"testing"
	"time"
)

func TestPlace(t *testing.T) {
	t.Parallel()
	next := position{seq: 5, off: 100}
	for _, tt := range []struct {
		name string
		at   position
		n    int
		want verdict
		skip int
	}{
		{"next byte", position{5, 100}, 10, accept, 0},
		{"overlap takes the tail", position{5, 90}, 20, accept, 10},
		{"from the start, longer", position{5, 0}, 101, accept, 100},
		{"all here already", position{5, 90}, 10, duplicate, 0},
		{"from the start, shorter", position{5, 0}, 100, duplicate, 0},
		{"earlier message", position{4, 1 << 20}, 10, duplicate, 0},
		{"hole in the message", position{5, 101}, 10, gap, 0},
		{"later message", position{6, 0}, 10, gap, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, skip := place(next, tt.at, tt.n); got != tt.want || skip != tt.skip {
				t.Errorf("got %d skip %d, want %d skip %d", got, skip, tt.want, tt.skip)
			}
		})
	}
}

func TestResumeFrom(t *testing.T) {
	t.Parallel()
	known, end := position{3, 50}, position{7, 10}
	for _, tt := range []struct {
		name    string
		claimed position
		want    position
		err     error
	}{
		{"further", position{5, 20}, position{5, 20}, nil},
		{"where we were", known, known, nil},
		{"all that was sent", end, end, nil},
		{"an overtaken claim changes nothing", position{2, 0}, known, nil},
		{"a byte never sent", position{7, 11}, known, ErrMalformed},
		{"a message never sent", position{8, 0}, known, ErrMalformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := resumeFrom(known, tt.claimed, end)
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("got %v, %v; want %v, %v", got, err, tt.want, tt.err)
			}
		})
	}
}

func TestPairWith(t *testing.T) {
	t.Parallel()
	current, old, fresh := Boot{1}, Boot{2}, Boot{3}
	retired := []Boot{old}
	for _, tt := range []struct {
		name    string
		boot    Boot
		started uint64
		want    pairing
	}{
		{"the same life", current, 9, pairSame},
		{"the same life, slow handshake", current, 2, pairSame},
		{"a restart", fresh, 6, pairNew},
		{"a replaced life comes back", old, 9, pairStale},
		{"a handshake from before the current life, finished late", fresh, 4, pairStale},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := pairWith(tt.boot, current, retired, tt.started, 5); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
	if got := pairWith(fresh, Boot{}, nil, 1, 0); got != pairNew {
		t.Errorf("first pairing: got %d", got)
	}
}

func TestPulse(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, tt := range []struct {
		name          string
		heard, pinged time.Time
		ping, dead    bool
		wait          time.Duration
	}{
		{"just heard", now, time.Time{}, false, false, pingEvery},
		{"quiet for a while", ago(2 * time.Second), time.Time{}, false, false, 3 * time.Second},
		{"time to ask", ago(pingEvery), time.Time{}, true, false, pingEvery},
		{"asked, waiting", ago(8 * time.Second), ago(3 * time.Second), false, false, pingEvery},
		{"asked, almost dead", ago(13 * time.Second), ago(8 * time.Second), false, false, 2 * time.Second},
		{"silent", ago(deadAfter), ago(10 * time.Second), false, true, 0},
		{"it talks but never answers", now, ago(deadAfter), false, true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ping, dead, wait := pulse(now, tt.heard, tt.pinged, pingEvery)
			if ping != tt.ping || dead != tt.dead || wait != tt.wait {
				t.Errorf("got %v %v %v, want %v %v %v", ping, dead, wait, tt.ping, tt.dead, tt.wait)
			}
		})
	}
}

func TestHasRoom(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		queued, size int
		want         bool
	}{
		{"empty", 0, maxMessage, true},
		{"the largest beside little", Window - reserve - maxMessage, maxMessage, true},
		{"the largest would eat the reserve", Window - reserve - maxMessage + 1, maxMessage, false},
		{"a small one uses the reserve", Window - smallMessage, smallMessage, true},
		{"full", Window - smallMessage + 1, smallMessage, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := hasRoom(tt.queued, tt.size, Window); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
