package requester

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weftmesh/weft/workspace"
)

// idAt is a UUIDv7 of a given time.
func idAt(at time.Time) string {
	u := uuid.Must(uuid.NewV7())
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(at.UnixMilli()))
	copy(u[:6], b[2:])
	return u.String()
}

func TestCheckAge(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		id       string
		deadline time.Duration
		want     workspace.Code
	}{
		"fresh":                           {idAt(now), 0, ""},
		"on its way for a while":          {idAt(now.Add(-9 * time.Minute)), 0, ""},
		"given up, within clock skew":     {idAt(now.Add(-2 * time.Minute)), 30 * time.Second, ""},
		"given up":                        {idAt(now.Add(-3 * time.Minute)), 30 * time.Second, workspace.Expired},
		"without a deadline, yesterday's": {idAt(now.Add(-24 * time.Hour)), 0, workspace.Expired},
		"a deadline longer than any tool": {idAt(now.Add(-time.Hour)), 23 * time.Hour, workspace.Expired},
		"a little ahead":                  {idAt(now.Add(time.Minute)), 0, ""},
		"from the future":                 {idAt(now.Add(time.Hour)), 0, workspace.BadArguments},
		"random id, which tells no time":  {"3fa85f64-5717-4562-b3fc-2c963f66afa6", 0, workspace.BadArguments},
		"no id":                           {"", 0, workspace.BadArguments},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := workspace.Code("")
			if r := checkAge(tc.id, tc.deadline, now); r != nil {
				got = r.Code
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
