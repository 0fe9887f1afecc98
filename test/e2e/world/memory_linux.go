package world

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

// window is how much of a process's memory is read at once.
const window = 1 << 20

// Memory returns those of the needles that a process's memory holds now. The
// test is skipped, in CI failed, where another process's memory can't be read.
// Use a control needle that must be there, so that an empty answer means
// something.
//
// The memory moves while it is read. A needle that is only ever copied about
// could be missed; take the answer after the bytes passed and the process is
// idle.
func Memory(t testing.TB, pid int, needles [][]byte) [][]byte {
	t.Helper()
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		Missing(t, "the right to read the memory of process %d: %v", pid, err)
	}
	defer mem.Close()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		Missing(t, "the right to read the memory map of process %d: %v", pid, err)
	}
	longest := 0
	for _, needle := range needles {
		longest = max(longest, len(needle))
	}
	hit := make([]bool, len(needles))
	var read int64
	lines := bufio.NewScanner(bytes.NewReader(maps))
	for lines.Scan() {
		from, to, ok := readable(lines.Text())
		if ok {
			read += searchRegion(mem, from, to, longest, needles, hit)
		}
	}
	if read == 0 {
		t.Fatalf("read no byte of the memory of process %d", pid)
	}
	var found [][]byte
	for i, needle := range needles {
		if hit[i] {
			found = append(found, needle)
		}
	}
	return found
}

// readable parses a line of maps: "from-to rwxp offset dev inode path".
func readable(line string) (from, to int64, ok bool) {
	var perms string
	if n, _ := fmt.Sscanf(line, "%x-%x %s", &from, &to, &perms); n != 3 || !strings.HasPrefix(perms, "r") {
		return 0, 0, false
	}
	// The kernel's own pages can't be read through mem.
	return from, to, !strings.HasSuffix(line, "[vvar]") && !strings.HasSuffix(line, "[vsyscall]") && !strings.HasSuffix(line, "[vvar_vclock]")
}

// searchRegion reads a region in overlapping windows, so that a needle across
// two of them is found. A part that went away meanwhile is passed over.
func searchRegion(mem io.ReaderAt, from, to int64, longest int, needles [][]byte, hit []bool) (read int64) {
	buf := make([]byte, window+longest)
	for at := from; at < to; at += window {
		n, _ := mem.ReadAt(buf[:min(int64(len(buf)), to-at)], at)
		read += int64(min(n, window))
		for i, needle := range needles {
			hit[i] = hit[i] || bytes.Contains(buf[:n], needle)
		}
	}
	return read
}
