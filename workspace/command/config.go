package command

import (
	"context"
	"log/slog"
	"time"

	"github.com/weftmesh/weft/workspace/redact"
)

// Mount is one granted root.
type Mount struct {
	// Name is the root's name in virtual paths.
	Name string
	// HostDir is the directory on this machine. It is never shown.
	HostDir string
	// Writable is set when the grant has the write right.
	Writable bool
}

// DeniedPath is a file or directory that no command may see.
type DeniedPath struct {
	Root string // a Mount's Name
	Rel  string // slash-separated path below it
	Dir  bool
}

// Author is who a commit is by.
type Author struct{ Name, Email string }

// Config configures a Runner.
type Config struct {
	// Roots are the granted folders. At least one is required.
	Roots []Mount
	// StateDir is the session's own directory for caches, logs of jobs and
	// fixtures of the sandbox. Required; created 0700; it must lie outside
	// every root. The caller removes it when the session's records go.
	StateDir string
	// Allowed is what the grant allows; the tools of its entries are resolved
	// by NewRunner unless Pins has them.
	Allowed []Allowed
	// Pins are the tools as recorded when the grant was made (Resolve). A tool
	// that changed since is refused.
	Pins []Pin

	// Denied lists what is masked; called before and after every command. Nil
	// means nothing is denied.
	Denied func(ctx context.Context) ([]DeniedPath, error)
	// Secret reports whether a path below a root is denied by its name, whether
	// or not it exists. Nil means none is.
	Secret func(rel string) bool
	// Redact returns the secrets to take out of output; called at each start.
	// Nil redacts nothing.
	Redact func() *redact.Set

	// AllowNet gives commands the host's network.
	AllowNet bool
	// UnixSockets allows socket(AF_UNIX); ignored with AllowNet.
	UnixSockets bool
	// Unsandboxed runs commands without a sandbox where there is none.
	Unsandboxed bool
	// Author is used for commits when the repository names none.
	Author Author
	// Limits bounds every command. Zero fields take the defaults.
	Limits Limits
	// Log gets events above Debug only for the owner's own machine. Nil
	// discards.
	Log *slog.Logger
}

// Limits bounds commands. A zero field takes the default.
type Limits struct {
	// Jobs is how many run at once. Default 4.
	Jobs int
	// Timeout is the wall clock used when a request names none. Default 120 s.
	Timeout time.Duration
	// MaxTimeout caps what a request may name. Default 600 s.
	MaxTimeout time.Duration
	// Yield is how long Run waits when a request names nothing. Default 10 s;
	// requests are held to 250 ms .. 30 s.
	Yield time.Duration
	// LogBytes is the stored output of a job, after which it is killed.
	// Default 16 MiB.
	LogBytes int64
	// MaxBytes caps Output of one result. Default 96 KiB; a request that names
	// nothing gets 30000.
	MaxBytes int
	// KeptBytes is the total of finished jobs' logs kept for polling.
	// Default 64 MiB.
	KeptBytes int64
	// TmpBytes bounds the private /tmp and /dev/shm. Default 1 GiB.
	TmpBytes int64
	// FileBytes bounds each file that is written. Default 4 GiB.
	FileBytes int64
	// Processes bounds processes and threads of one job. Default 1024.
	Processes int
	// MemoryBytes bounds a job's memory where a cgroup can be made. Default
	// half of the machine's.
	MemoryBytes int64
	// FreeBytes of disk and memory are left: a job that makes less is killed.
	// Default 256 MiB; checked only if there was more when it began.
	FreeBytes int64
	// Entries bounds the scan for changes. Default 200000.
	Entries int
}

func (l *Limits) fill() {
	def := func(p *int64, v int64) {
		if *p <= 0 {
			*p = v
		}
	}
	defInt := func(p *int, v int) {
		if *p <= 0 {
			*p = v
		}
	}
	defTime := func(p *time.Duration, v time.Duration) {
		if *p <= 0 {
			*p = v
		}
	}
	defInt(&l.Jobs, 4)
	defTime(&l.Timeout, 120*time.Second)
	defTime(&l.MaxTimeout, 600*time.Second)
	defTime(&l.Yield, 10*time.Second)
	def(&l.LogBytes, 16<<20)
	defInt(&l.MaxBytes, 96<<10)
	def(&l.KeptBytes, 64<<20)
	def(&l.TmpBytes, 1<<30)
	def(&l.FileBytes, 4<<30)
	defInt(&l.Processes, 1024)
	def(&l.FreeBytes, 256<<20)
	def(&l.MemoryBytes, totalMemory()/2)
	defInt(&l.Entries, 200_000)
	l.Timeout = min(l.Timeout, l.MaxTimeout)
}

// Bounds of what a request may ask for.
const (
	minYield = 250 * time.Millisecond
	maxYield = 30 * time.Second
	maxStdin = 1 << 20
	maxEnv   = 32

	// defaultBytes is the output of a result that doesn't say how much.
	defaultBytes = 30000
)
