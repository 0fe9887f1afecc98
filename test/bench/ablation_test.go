//go:build linux

package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftmesh/weft/node/host"
	"github.com/weftmesh/weft/test/e2e/world"
	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/files"
	"github.com/weftmesh/weft/workspace/redact"
)

// secretCount is how many secrets a folder has that is rich in them.
const secretCount = 20

// environment is an .env file with so many secrets.
func environment() map[string]string {
	var b strings.Builder
	for i := range secretCount {
		var v [16]byte
		rand.Read(v[:])
		fmt.Fprintf(&b, "SECRET_%02d=%s\n", i, hex.EncodeToString(v[:]))
	}
	return map[string]string{".env": b.String()}
}

// BenchmarkRedaction reads a file of the largest text that one result may
// have, with no secret known and with 20: alone, and as a whole call.
func BenchmarkRedaction(b *testing.B) {
	w := world.New(b)
	req := w.Node(b, "req", world.Config{Listen: []string{onQUIC}})
	n := newNear(b, filepath.Join(w.Dir, "near"), onQUIC, nil)
	n.meet(b, req)
	plain, rich := plant(b, filepath.Join(w.Dir, "plain"), nil), plant(b, filepath.Join(w.Dir, "rich"), environment())
	race{title: "Redaction: read_file, 64 KiB", against: []string{"read, no redactor", "weft quic, no secrets"}, block: 20}.run(b, []contender{
		{name: "read, no redactor", op: readTree(b, plain, false)},
		{name: "read, no secrets", op: readTree(b, plain, true)},
		{name: "read, 20 secrets", op: readTree(b, rich, true)},
		{name: "weft quic, no secrets", op: reads(n.open(b, req, plain, host.DirectQUIC), middle), serve: []int{req.PID()}},
		{name: "weft quic, 20 secrets", op: reads(n.open(b, req, rich, host.DirectQUIC), middle), serve: []int{req.PID()}},
	})
}

// readTree is the tool without the call.
func readTree(tb testing.TB, dir string, redacting bool) func(context.Context) error {
	tree, err := files.OpenTree([]files.RootSpec{{Name: "work", Dir: dir, Rights: workspace.Read}}, files.DefaultRules())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { tree.Close() })
	if redacting {
		found, err := tree.SecretValues(context.Background())
		if err != nil {
			tb.Fatal(err)
		}
		var secrets []redact.Secret
		for _, s := range found {
			secrets = append(secrets, redact.Secret{Source: s.Source, Value: s.Value})
		}
		tree.SetRedactor(redact.New(secrets))
	}
	path, refusal := workspace.ParsePath("work/" + readNames[middle])
	if refusal != nil {
		tb.Fatal(refusal)
	}
	return func(ctx context.Context) error {
		got, err := tree.Read(ctx, files.ReadRequest{Path: path, MaxBytes: 96 << 10})
		if err != nil {
			return err
		}
		return same(got.Body, middle)
	}
}

// BenchmarkSandbox runs the shortest command there is, plainly, in a sandbox
// made by hand, and as a call.
func BenchmarkSandbox(b *testing.B) {
	w := world.New(b)
	req := w.Node(b, "req", world.Config{Listen: []string{onQUIC}})
	n := newNear(b, filepath.Join(w.Dir, "near"), onQUIC, nil)
	n.meet(b, req)
	s := n.open(b, req, plant(b, w.Dir, nil), host.DirectQUIC, "'true'")
	all := []contender{{name: "fork and exec", op: command("true")}}
	if _, err := exec.LookPath("bwrap"); err != nil {
		all = append(all, contender{name: "bwrap alone", skip: err.Error()})
	} else {
		all = append(all, contender{name: "bwrap alone", op: command("bwrap", "--unshare-all", "--die-with-parent", "--new-session",
			"--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "true")})
	}
	all = append(all, contender{name: "weft quic, run_command", serve: []int{req.PID()}, op: func(ctx context.Context) error {
		got, err := s.call(ctx, "run_command", object{"argv": []string{"true"}}.json())
		if err == nil && !bytes.Contains(got.head, []byte("exit=0")) {
			err = fmt.Errorf("%q", got.head)
		}
		return err
	}})
	race{title: "Sandbox: the command true", against: []string{"fork and exec", "bwrap alone"}}.run(b, all)
}

func command(argv ...string) func(context.Context) error {
	return func(ctx context.Context) error { return exec.CommandContext(ctx, argv[0], argv[1:]...).Run() }
}
