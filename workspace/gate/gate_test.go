package gate

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weftmesh/weft/workspace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// names is a grant of app (read, write) and docs (read), with .env denied and
// .git closed to writing.
type names struct{}

func (names) Right(p workspace.Path) (workspace.Right, *workspace.Refusal) {
	switch p.Root() {
	case "app":
		return workspace.Read | workspace.Write, nil
	case "docs":
		return workspace.Read, nil
	}
	return 0, workspace.Refuse(workspace.OutsideGrant, "no root %s", p.Root())
}

func (names) CheckName(p workspace.Path) *workspace.Refusal {
	if p.Base() == ".env" {
		return workspace.Refuse(workspace.SecretPath, "secret")
	}
	return nil
}

func (n names) CheckWrite(p workspace.Path) *workspace.Refusal {
	if p.Base() == ".git" {
		return workspace.Refuse(workspace.SecretPath, "protected")
	}
	return n.CheckName(p)
}

// sound is a call that is allowed: a read of app/main.go.
func sound() Facts {
	return Facts{State: Open, Known: true, Want: workspace.Read, Granted: workspace.Read | workspace.Write,
		Uses: []Use{{Text: "app/main.go", Want: workspace.Read}}}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	refuse := func(c workspace.Code) *workspace.Refusal { return workspace.Refuse(c, "x") }
	for name, tc := range map[string]struct {
		change func(*Facts)
		want   workspace.Code
	}{
		"a sound call":              {func(*Facts) {}, ""},
		"killed":                    {func(f *Facts) { f.State = Killed }, workspace.Killed},
		"closed counts as killed":   {func(f *Facts) { f.State = Closed }, workspace.Killed},
		"aborted counts as killed":  {func(f *Facts) { f.State = Aborted }, workspace.Killed},
		"expired by state":          {func(f *Facts) { f.State = Lapsed }, workspace.Expired},
		"expired by clock":          {func(f *Facts) { f.Expired = true }, workspace.Expired},
		"unknown tool":              {func(f *Facts) { f.Known = false }, workspace.UnknownTool},
		"over budget":               {func(f *Facts) { f.Limited = refuse(workspace.RateLimited) }, workspace.RateLimited},
		"bad arguments":             {func(f *Facts) { f.Arguments = refuse(workspace.BadArguments) }, workspace.BadArguments},
		"right nowhere granted":     {func(f *Facts) { f.Want = workspace.Exec }, workspace.NoRight},
		"right not in this root":    {func(f *Facts) { f.Uses = []Use{{"docs/a", workspace.Write}} }, workspace.NoRight},
		"absolute path":             {func(f *Facts) { f.Uses[0].Text = "/etc/passwd" }, workspace.BadPath},
		"dot dot":                   {func(f *Facts) { f.Uses[0].Text = "app/../x" }, workspace.BadPath},
		"root that is not granted":  {func(f *Facts) { f.Uses[0].Text = "app-evil/x" }, workspace.OutsideGrant},
		"secret name":               {func(f *Facts) { f.Uses[0].Text = "app/.env" }, workspace.SecretPath},
		"name closed to writing":    {func(f *Facts) { f.Uses = []Use{{"app/.git", workspace.Write}} }, workspace.SecretPath},
		"the same name may be read": {func(f *Facts) { f.Uses = []Use{{"app/.git", workspace.Read}} }, ""},
		"command":                   {func(f *Facts) { f.Command = refuse(workspace.CommandNotGranted) }, workspace.CommandNotGranted},
		"too large":                 {func(f *Facts) { f.Size = refuse(workspace.TooLarge) }, workspace.TooLarge},
		"no log":                    {func(f *Facts) { f.LogBroken = true }, workspace.LogUnavailable},
		"second path is the bad one": {func(f *Facts) {
			f.Uses = append(f.Uses, Use{"app/.env", workspace.Read})
		}, workspace.SecretPath},
		"of two bad paths the earlier code wins": {func(f *Facts) {
			f.Uses = []Use{{"app/.env", workspace.Read}, {"/x", workspace.Read}}
		}, workspace.BadPath},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := sound()
			tc.change(&f)
			got := workspace.Code("")
			if r := Decide(f, names{}); r != nil {
				got = r.Code
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestFirstRefusalWins breaks everything at once and then mends it from the
// front: each code must show in gate order.
func TestFirstRefusalWins(t *testing.T) {
	t.Parallel()
	refuse := func(c workspace.Code) *workspace.Refusal { return workspace.Refuse(c, "x") }
	f := Facts{State: Killed, Expired: true, Limited: refuse(workspace.RateLimited), Arguments: refuse(workspace.BadArguments),
		Want: workspace.Exec, Granted: workspace.Read, Uses: []Use{{"/bad", workspace.Read}},
		Command: refuse(workspace.CommandNotGranted), Size: refuse(workspace.TooLarge), LogBroken: true}
	steps := []struct {
		want workspace.Code
		mend func()
	}{
		{workspace.Killed, func() { f.State = Open }},
		{workspace.Expired, func() { f.Expired = false }},
		{workspace.UnknownTool, func() { f.Known = true }},
		{workspace.RateLimited, func() { f.Limited = nil }},
		{workspace.BadArguments, func() { f.Arguments = nil }},
		{workspace.NoRight, func() { f.Granted |= workspace.Exec }},
		{workspace.BadPath, func() { f.Uses[0].Text = "other/x" }},
		{workspace.OutsideGrant, func() { f.Uses[0].Text = "app/.env" }},
		{workspace.SecretPath, func() { f.Uses[0].Text = "app/x" }},
		{workspace.CommandNotGranted, func() { f.Command = nil }},
		{workspace.TooLarge, func() { f.Size = nil }},
		{workspace.LogUnavailable, func() { f.LogBroken = false }},
	}
	for _, s := range steps {
		r := Decide(f, names{})
		if r == nil || r.Code != s.want {
			t.Fatalf("got %v, want %s", r, s.want)
		}
		s.mend()
	}
	if r := Decide(f, names{}); r != nil {
		t.Fatalf("all mended, and still %v", r)
	}
}

func TestMeter(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	t.Run("burst, then the rate", func(t *testing.T) {
		t.Parallel()
		m := NewMeter(Budget{Calls: 1000, ReadBytes: 1, WriteBytes: 1}, Used{})
		for i := range 20 {
			if r := m.Take(Execs, now); r != nil {
				t.Fatalf("call %d of the burst refused: %v", i, r)
			}
		}
		r := m.Take(Execs, now)
		if r == nil || r.Code != workspace.RateLimited || r.RetryAfter != time.Second {
			t.Fatalf("got %v with %v, want rate_limited with 1s", r, r.RetryAfter)
		}
		if r := m.Take(Execs, now.Add(r.RetryAfter)); r != nil {
			t.Fatalf("refused after waiting as told: %v", r)
		}
	})
	t.Run("calls", func(t *testing.T) {
		t.Parallel()
		m := NewMeter(Budget{Calls: 2, ReadBytes: 1, WriteBytes: 1}, Used{Calls: 1})
		if r := m.Take(Reads, now); r != nil {
			t.Fatal(r)
		}
		if r := m.Take(Reads, now); r == nil || r.Code != workspace.RateLimited {
			t.Fatalf("got %v", r)
		}
	})
	t.Run("bytes", func(t *testing.T) {
		t.Parallel()
		m := NewMeter(Budget{Calls: 100, ReadBytes: 10, WriteBytes: 10}, Used{})
		if r := m.Reserve(11); r == nil {
			t.Fatal("a write beyond the budget has room")
		}
		if r := m.Reserve(6); r != nil {
			t.Fatal(r)
		}
		if r := m.Reserve(6); r == nil {
			t.Fatal("two writes side by side spend the same bytes")
		}
		m.Done(false, 0, 0, 6)
		if r := m.Reserve(6); r != nil {
			t.Fatalf("what was given back has no room: %v", r)
		}
		m.Done(false, 10, 10, 6)
		if r := m.Take(Reads, now); r == nil {
			t.Fatal("reads are used up and still allowed")
		}
		if r := m.Take(Writes, now); r == nil {
			t.Fatal("writes are used up and still allowed")
		}
		if r := m.Take(Execs, now); r == nil {
			t.Fatal("output is reading too, and it is used up")
		}
		if c, rd, w := m.Left(); c != 97 || rd != 0 || w != 0 {
			t.Fatalf("left %d %d %d", c, rd, w)
		}
	})
	t.Run("own rate", func(t *testing.T) {
		t.Parallel()
		m := NewMeter(Budget{Calls: 100_000, ReadBytes: 1, WriteBytes: 1, Rate: 6000}, Used{})
		for i := range 6000 {
			if r := m.Take(Reads, now); r != nil {
				t.Fatalf("call %d: %v", i, r)
			}
		}
		if r := m.Take(Reads, now); r == nil || r.RetryAfter != 10*time.Millisecond {
			t.Fatalf("got %v", r)
		}
	})
}
