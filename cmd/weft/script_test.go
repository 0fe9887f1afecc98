package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/node/home"
)

// checked is a test run that ends with the search for leaked goroutines.
type checked struct{ m *testing.M }

func (c checked) Run() int {
	code := c.m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// TestMain lets the scripts run this binary as weft.
func TestMain(m *testing.M) {
	testscript.Main(checked{m}, map[string]func(){"weft": main})
}

// TestScripts runs testdata/script/*.txtar: the real command, in processes of
// its own, with every verb given something right and something wrong.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv(home.Env, e.WorkDir+"/home")
			e.Setenv("LOCAL", "--listen=/ip4/127.0.0.1/udp/0/quic-v1") // for up: no other machine gets at it
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits,
			"ready": ready,
			"field": field,
		},
	})
}

// exits runs a program that must end with one code: exits CODE PROGRAM ARG...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// patience is how long a node may take to be ready on a busy machine.
const patience = 30 * time.Second

// ready waits until the node of a home answers: ready HOME
func ready(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: ready HOME")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask(ctx, home.Dir(ts.MkAbs(args[0])))
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			ts.Fatalf("not ready after %v: %v", patience, err)
		case <-tick.C:
		}
	}
}

func ask(ctx context.Context, dir home.Dir) error {
	c, err := api.Dial(dir)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Get(ctx, "/v1/status", nil)
}

// field sets a variable to a member of the JSON document that was printed
// last: field VAR MEMBER, or field VAR MEMBER INDEX for one of a list.
func field(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: field VAR MEMBER [INDEX]")
	}
	var doc map[string]any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &doc))
	v, ok := doc[args[1]]
	if !ok {
		ts.Fatalf("no member %q", args[1])
	}
	if len(args) == 3 {
		i, err := strconv.Atoi(args[2])
		ts.Check(err)
		list, ok := v.([]any)
		if !ok || i >= len(list) {
			ts.Fatalf("%q has no element %d", args[1], i)
		}
		v = list[i]
	}
	ts.Setenv(args[0], fmt.Sprint(v))
}
