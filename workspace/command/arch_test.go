//go:build linux

package command

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

const runtimeArch = runtime.GOARCH

// clearCloseOnExec makes f inheritable, as files that the node got from its
// own parent may be.
func clearCloseOnExec(t *testing.T, f *os.File) {
	t.Helper()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFD, 0); err != nil {
		t.Fatal(err)
	}
}
