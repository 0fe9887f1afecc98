// Package home knows where a node keeps its things, and whether a node runs
// there.
//
//	identity.key   the node's key, 0600
//	store/         the database
//	api/address    host:port of the loopback API, while a node runs
//	api/token      its bearer token, 0600, fresh at each start
//	lock           held by the running node; its text is the process id
//
// The lock is the operating system's (flock, LockFileEx): it ends with the
// process however that dies, so there is nothing to clean up after a crash.
package home

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Dir is a node's home directory.
type Dir string

// Env is the environment variable that names the home.
const Env = "WEFT_HOME"

// Default is $WEFT_HOME, else the platform's directory for application data:
// $XDG_DATA_HOME/weft or ~/.local/share/weft, ~/Library/Application
// Support/weft on macOS, %LocalAppData%\weft on Windows.
func Default() (Dir, error) {
	if d := os.Getenv(Env); d != "" {
		return Dir(d), nil
	}
	switch runtime.GOOS {
	case "windows":
		if d := os.Getenv("LocalAppData"); d != "" {
			return Dir(filepath.Join(d, "weft")), nil
		}
	case "darwin", "ios":
	default:
		if d := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(d) {
			return Dir(filepath.Join(d, "weft")), nil
		}
	}
	user, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find your home directory: %w; set %s", err, Env)
	}
	if runtime.GOOS == "darwin" {
		return Dir(filepath.Join(user, "Library", "Application Support", "weft")), nil
	}
	return Dir(filepath.Join(user, ".local", "share", "weft")), nil
}

// Key is the path of the identity key.
func (d Dir) Key() string { return filepath.Join(string(d), "identity.key") }

// Store is the directory of the database.
func (d Dir) Store() string { return filepath.Join(string(d), "store") }

// API is the directory of the API's address and token.
func (d Dir) API() string { return filepath.Join(string(d), "api") }

// Sessions is where workspace sessions keep build caches and command logs.
func (d Dir) Sessions() string { return filepath.Join(string(d), "sessions") }

// Create makes the directory, owner-only, if it isn't there.
func (d Dir) Create() error {
	if d == "" {
		return errors.New("no home directory given")
	}
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return fmt.Errorf("create home: %w", err)
	}
	return nil
}

// RunningError says that another process runs a node on this home.
type RunningError struct {
	Dir Dir
	// PID is the process, or 0 if it hasn't said yet.
	PID int
}

func (e *RunningError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("weft is already running on %s", e.Dir)
	}
	return fmt.Sprintf("weft is already running on %s (pid %d)", e.Dir, e.PID)
}

// errHeld is what the platform's tryLock returns when someone else has it.
var errHeld = errors.New("lock is held")

// A reader's glance (Running) holds the lock for microseconds, so Lock looks
// again before it says that another node runs.
const (
	lockTries = 10
	lockPause = 20 * time.Millisecond
)

// Lock is the right to run a node on a home.
type Lock struct{ f *os.File }

// Lock takes the home for this process, or returns a *RunningError.
func (d Dir) Lock() (*Lock, error) {
	if err := d.Create(); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(d.lockPath(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	for try := 1; ; try++ {
		err = tryLock(f, true)
		if err == nil {
			break
		}
		if !errors.Is(err, errHeld) || try == lockTries {
			break
		}
		<-time.After(lockPause)
	}
	if errors.Is(err, errHeld) {
		f.Close()
		return nil, &RunningError{Dir: d, PID: d.pid()}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", d.lockPath(), err)
	}
	text := strconv.Itoa(os.Getpid()) + "\n"
	if err := f.Truncate(0); err != nil {
		f.Close()
		return nil, fmt.Errorf("write lock: %w", err)
	}
	if _, err := f.WriteAt([]byte(text), 0); err != nil {
		f.Close()
		return nil, fmt.Errorf("write lock: %w", err)
	}
	return &Lock{f: f}, nil
}

// Close gives the home back. It is safe to call twice.
func (l *Lock) Close() error {
	if l == nil || l.f == nil {
		return nil
	}
	f := l.f
	l.f = nil
	f.Truncate(0)
	// Closing alone isn't enough: a child between fork and exec, of a command
	// being started, still has the descriptor.
	unlock(f)
	return f.Close()
}

// Running reports whether a node runs on the home, and as which process (0 if
// it hasn't said yet). It changes nothing.
func (d Dir) Running() (pid int, running bool) {
	f, err := os.Open(d.lockPath())
	if err != nil {
		return 0, false
	}
	defer f.Close()
	if err := tryLock(f, false); errors.Is(err, errHeld) {
		return d.pid(), true
	}
	unlock(f)
	return 0, false
}

func (d Dir) lockPath() string { return filepath.Join(string(d), "lock") }

func (d Dir) pid() int {
	raw, err := os.ReadFile(d.lockPath())
	if err != nil || len(raw) > 32 {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return 0
	}
	return pid
}
