package home

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// holdEnv makes the test binary hold a home's lock until its input ends, as
// the other process of TestLockBetweenProcesses.
const holdEnv = "WEFT_TEST_HOLD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holdEnv); dir != "" {
		if _, err := Dir(dir).Lock(); err != nil {
			os.Stdout.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Stdout.WriteString("held\n")
		os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func TestLock(t *testing.T) {
	t.Parallel()
	dir := Dir(filepath.Join(t.TempDir(), "deep", "home"))
	if _, running := dir.Running(); running {
		t.Error("a home that isn't there runs")
	}
	lock, err := dir.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(string(dir)); err != nil || (runtime.GOOS != "windows" && st.Mode().Perm() != 0o700) {
		t.Errorf("home is %v, %v; want 0700", st.Mode(), err)
	}
	if pid, running := dir.Running(); !running || pid != os.Getpid() {
		t.Errorf("Running = %d, %v", pid, running)
	}
	_, err = dir.Lock()
	var already *RunningError
	if !errors.As(err, &already) || already.PID != os.Getpid() || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("second lock: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if err := lock.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if _, running := dir.Running(); running {
		t.Error("still running after Close")
	}
	again, err := dir.Lock()
	if err != nil {
		t.Fatalf("lock again: %v", err)
	}
	again.Close()
}

// A killed process leaves nothing that has to be cleaned up.
func TestLockBetweenProcesses(t *testing.T) {
	t.Parallel()
	dir := Dir(t.TempDir())
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), holdEnv+"="+string(dir))
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 64)
	n, _ := out.Read(line)
	if string(line[:n]) != "held\n" {
		t.Fatalf("other process: %q", line[:n])
	}
	var already *RunningError
	if _, err := dir.Lock(); !errors.As(err, &already) || already.PID != other.Process.Pid {
		t.Errorf("lock held elsewhere: %v", err)
	}
	other.Process.Kill()
	other.Wait()
	if _, running := dir.Running(); running {
		t.Error("a killed process still runs")
	}
	lock, err := dir.Lock()
	if err != nil {
		t.Fatalf("lock after a kill: %v", err)
	}
	lock.Close()
}

func TestDefault(t *testing.T) {
	t.Setenv(Env, "/some/where")
	if d, err := Default(); err != nil || d != "/some/where" {
		t.Errorf("with %s: %q, %v", Env, d, err)
	}
	t.Setenv(Env, "")
	if runtime.GOOS != "linux" {
		return
	}
	t.Setenv("XDG_DATA_HOME", "/data")
	if d, err := Default(); err != nil || d != "/data/weft" {
		t.Errorf("with XDG_DATA_HOME: %q, %v", d, err)
	}
	t.Setenv("XDG_DATA_HOME", "relative") // the XDG specification: ignore it
	t.Setenv("HOME", "/home/u")
	if d, err := Default(); err != nil || d != "/home/u/.local/share/weft" {
		t.Errorf("with HOME: %q, %v", d, err)
	}
	t.Setenv("HOME", "")
	if _, err := Default(); err == nil || !strings.Contains(err.Error(), Env) {
		t.Errorf("without HOME: %v", err)
	}
}

func TestLockRefusesBadHomes(t *testing.T) {
	t.Parallel()
	if _, err := Dir("").Lock(); err == nil {
		t.Error("the empty home was locked")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Dir(file).Lock(); err == nil {
		t.Error("a file was taken for a home")
	}
}

// A child that is being started holds a copy of the descriptor for a moment;
// Close gives the home back all the same.
func TestCloseDespiteCopies(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("descriptors are not copied there")
	}
	dir := Dir(t.TempDir())
	lock, err := dir.Lock()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("cat")
	child.ExtraFiles = []*os.File{lock.f}
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if _, running := dir.Running(); running {
		t.Error("the home is still taken")
	}
	in.Close()
	child.Wait()
}
