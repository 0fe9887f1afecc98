package node

import (
	"runtime/debug"
	"sync"
	"time"
)

// Build says what this binary was built from.
type Build struct {
	// Version is the module's version, or "devel" for a build from a work
	// tree that Go didn't stamp.
	Version string
	// Revision is the commit, empty if unknown.
	Revision string
	// Time is the commit's, zero if unknown.
	Time time.Time
	// Go is the toolchain.
	Go string
}

// BuildInfo reads what the Go linker stamped into the binary.
var BuildInfo = sync.OnceValue(func() Build {
	b := Build{Version: "devel"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Go = info.GoVersion
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time, _ = time.Parse(time.RFC3339, s.Value)
		}
	}
	return b
})
