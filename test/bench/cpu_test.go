//go:build linux

package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cpu is the CPU time that a process has used in all its threads, to the
// nanosecond; 0 is this process. A process that has ended counts as nothing.
func cpu(pid int) time.Duration {
	// clock_getcpuclockid(3): the id of a process's CPU clock is made of the
	// complement of its pid and CPUCLOCK_SCHED.
	clock := int32(unix.CLOCK_PROCESS_CPUTIME_ID)
	if pid != 0 {
		clock = int32(^pid)<<3 | 2
	}
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

func cpuOf(pids []int) (sum time.Duration) {
	for _, p := range pids {
		sum += cpu(p)
	}
	return sum
}

// family is a process and everything below it.
func family(pid int) []int {
	all := []int{pid}
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return all
	}
	for _, t := range threads {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, t.Name()))
		if err != nil {
			continue
		}
		for f := range strings.FieldsSeq(string(raw)) {
			if child, err := strconv.Atoi(f); err == nil {
				all = append(all, family(child)...)
			}
		}
	}
	return all
}
