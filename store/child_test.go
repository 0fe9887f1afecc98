package store

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The writer's workers. One writes updates that need a redo record.
const (
	workers   = 6
	bigWorker = 0
)

// value is what a worker writes at one of its steps, so that a reader can tell
// a torn value from a whole one.
func value(worker int, step uint64, size int) []byte {
	r := rand.New(rand.NewPCG(uint64(worker), step))
	b := make([]byte, size)
	for i := 0; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], r.Uint64())
	}
	return b
}

// parts is how many values of what size one step writes, in one update.
func parts(worker int, step uint64) (n, size int) {
	switch {
	case worker == bigWorker && step%8 == 0:
		return 3000, 400 // 1.2 MB beside their keys: past one Badger transaction
	case worker == 1:
		return 2, 200 << 10 // to the value log
	}
	return 1 + int(step%3), 400
}

// child is the process that gets killed. It says on stdout what was
// acknowledged, one "worker step" a line, each written before the next begins.
func child(mode, dir string) int {
	if mode == "idle" {
		return idle(dir)
	}
	db, err := Open(Options{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	switch mode {
	case "hold": // keeps the lock until stdin ends
		fmt.Println("ready", os.Getpid())
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		_ = db.Close()
	case "fill":
		return fill(db)
	case "write":
		fmt.Println("ready", os.Getpid())
		var mu sync.Mutex
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for {
					step, err := writeStep(db, w)
					if err != nil {
						fmt.Println("error", err)
						return
					}
					mu.Lock()
					fmt.Printf("%d %d\n", w, step)
					mu.Unlock()
				}
			})
		}
		wg.Wait() // for ever
	}
	return 0
}

// fill writes until the disk is full, then lives on with a disk that has no
// byte left, and closes.
func fill(db *DB) int {
	fmt.Println("ready", os.Getpid())
	put := func(n int) error {
		return db.Update(context.Background(), func(tx *Tx) error {
			if err := blobs.Put(tx, fmt.Sprintf("%06d", n), value(0, uint64(n), 400+n%2*90<<10)); err != nil {
				return err
			}
			_, err := events.Append(tx, "s", value(1, uint64(n), 400))
			return err
		})
	}
	n := 0
	var err error
	for ; err == nil; n++ {
		err = put(n)
	}
	if !errors.Is(err, ErrFull) {
		fmt.Println("error", err)
		return 1
	}
	fmt.Println("full", n-1)
	_, _ = bufio.NewReader(os.Stdin).ReadByte() // the test takes the rest
	if err := put(n); !errors.Is(err, ErrFull) {
		fmt.Println("error", err)
		return 1
	}
	err = db.View(func(tx *Tx) error {
		_, err := blobs.Get(tx, "000000")
		return err
	})
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	if err := db.Close(); !errors.Is(err, ErrFull) {
		fmt.Println("error: close:", err)
		return 1
	}
	fmt.Println("closed")
	return 0
}

// writeStep appends one step of a worker: a log record, and values that
// replace those of the step before.
func writeStep(db *DB, w int) (uint64, error) {
	var next uint64
	err := db.Update(context.Background(), func(tx *Tx) error {
		name := strconv.Itoa(w)
		step, err := events.Len(tx, name)
		if err != nil {
			return err
		}
		n, size := parts(w, step)
		for i := range n {
			if err := blobs.Put(tx, fmt.Sprintf("%d/%d", w, i), value(w, step, size)); err != nil {
				return err
			}
		}
		next, err = events.Append(tx, name, value(w, step, 400))
		return err
	})
	return next, err
}

// checkSteps verifies that each worker has at least what was acknowledged, and
// that all it has is whole and of one step.
// slack is how many unacknowledged steps there may be.
func checkSteps(t *testing.T, db *DB, acked map[int]uint64, slack uint64) {
	t.Helper()
	view(t, db, func(tx *Tx) error {
		for w := range workers {
			name := strconv.Itoa(w)
			n, err := events.Len(tx, name)
			if err != nil {
				return err
			}
			if n < acked[w] || n > acked[w]+slack {
				t.Errorf("worker %d: %d steps, %d were acknowledged", w, n, acked[w])
			}
			var got uint64
			for got < n {
				recs, err := events.Read(tx, name, got, 1000)
				if err != nil || len(recs) == 0 {
					return fmt.Errorf("worker %d: read %d at %d: %w", w, len(recs), got, err)
				}
				for _, r := range recs {
					if string(r) != string(value(w, got, 400)) {
						t.Errorf("worker %d: record %d is torn", w, got)
					}
					got++
				}
			}
			if n == 0 {
				continue
			}
			num, size := parts(w, n-1)
			want := string(value(w, n-1, size))
			for i := range num {
				v, err := blobs.Get(tx, fmt.Sprintf("%d/%d", w, i))
				if err != nil {
					return err
				}
				if string(v) != want {
					t.Errorf("worker %d: value %d of step %d is torn", w, i, n-1)
				}
			}
		}
		return nil
	})
}

// start runs the test binary as a child and waits until it is ready.
func start(t *testing.T, mode, dir string) (*exec.Cmd, *bufio.Scanner, func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+mode, "WEFT_STORE_TEST_DIR="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "ready") {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.Fatalf("child said %q", lines.Text())
	}
	return cmd, lines, func() { _ = in.Close() }
}

// killed runs a writer over dir and kills it a moment after it acknowledged
// some updates. It adds what was acknowledged to acked. Counting updates, not
// time, keeps the kills inside the work on a busy machine too.
func killed(t *testing.T, dir string, updates int, moment time.Duration, acked map[int]uint64) {
	t.Helper()
	cmd, lines, _ := start(t, "write", dir)
	kill := func() { _ = cmd.Process.Kill() }
	hung := time.AfterFunc(time.Minute, kill)
	defer hung.Stop()
	done := 0
	for ; ; done++ {
		if done == updates {
			timer := time.AfterFunc(moment, kill)
			defer timer.Stop()
		}
		if !lines.Scan() {
			break
		}
		var w int
		var step uint64
		if n, err := fmt.Sscanf(lines.Text(), "%d %d", &w, &step); n != 2 || err != nil {
			t.Errorf("child said %q", lines.Text())
		} else if step > acked[w] {
			acked[w] = step
		}
	}
	_ = cmd.Wait()
	if done < updates {
		t.Errorf("the writer ended after %d of %d updates", done, updates)
	}
}

func TestKill(t *testing.T) {
	t.Parallel()
	rounds := 36
	if testing.Short() {
		rounds = 6
	}
	dir := t.TempDir()
	acked := map[int]uint64{}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range rounds {
		// From the first commits to past several memtables.
		kills := 1 + i%2 // the second finds what the first left
		for range kills {
			killed(t, dir, r.IntN(60), time.Duration(r.IntN(3000))*time.Microsecond, acked)
		}
		db, err := Open(Options{Dir: dir, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		checkSteps(t, db, acked, uint64(kills))
		// What was written but not acknowledged counts from here on.
		view(t, db, func(tx *Tx) error {
			for w := range workers {
				n, err := events.Len(tx, strconv.Itoa(w))
				if err != nil {
					return err
				}
				acked[w] = n
			}
			return nil
		})
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			t.Fatalf("round %d of %d", i, rounds)
		}
	}
	total := uint64(0)
	for _, n := range acked {
		total += n
	}
	t.Logf("%d kills, %d updates kept", rounds*3/2, total)
	if total < uint64(rounds) {
		t.Errorf("only %d updates in %d rounds: the kills came too early to say anything", total, rounds)
	}
}

// logs returns the memtable logs that a killed process left, oldest first.
func logs(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.mem"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no memtable log in %s: %v", dir, err)
	}
	return names
}
