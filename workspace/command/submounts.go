package command

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// submounts lists what is mounted below dir on this machine. A bind mount
// would bring it along; a grant doesn't cross devices (case 15).
func submounts(dir string) ([]string, error) {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("mounts of this machine: %w", err)
	}
	var out []string
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 5 {
			continue
		}
		if at := unescapeMount(f[4]); at != dir && within(at, dir) {
			out = append(out, at)
		}
	}
	return out, lines.Err()
}

// unescapeMount reads the \040 escapes of mountinfo (proc(5)).
func unescapeMount(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
