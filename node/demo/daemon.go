package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/node/home"
)

// ready is the first line of weft up --json.
type ready struct {
	PeerID string   `json:"peerId"`
	Addrs  []string `json:"addrs"`
	API    string   `json:"api"`
}

// daemon is one weft process with a home of its own.
type daemon struct {
	home   string
	ready  ready
	cmd    *exec.Cmd
	client *api.Client
	log    *os.File
	ended  chan error
}

// stopPatience is how long a daemon may take to end.
const stopPatience = 6 * time.Second

// up starts a daemon on loopback and waits until it is ready.
func up(ctx context.Context, weft, dir string, flags ...string) (*daemon, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make a home: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(dir, "weft.log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make a log: %w", err)
	}
	args := append([]string{"--home", dir, "--json", "up", "--no-mdns",
		"--listen", "/ip4/127.0.0.1/udp/0/quic-v1", "--listen", "/ip4/127.0.0.1/tcp/0"}, flags...)
	d := &daemon{home: dir, log: log, cmd: exec.Command(weft, args...), ended: make(chan error, 1)}
	d.cmd.Stderr = log
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		log.Close()
		return nil, err
	}
	if err := d.cmd.Start(); err != nil {
		log.Close()
		return nil, fmt.Errorf("start %s: %w", weft, err)
	}
	line := make(chan []byte, 1)
	go func() { // ends when the process does
		r := bufio.NewReader(out)
		raw, _ := r.ReadBytes('\n')
		line <- raw
		r.WriteTo(log)
		d.ended <- d.cmd.Wait()
	}()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case raw := <-line:
		if err := json.Unmarshal(raw, &d.ready); err != nil {
			d.stop()
			return nil, fmt.Errorf("%s did not start: see %s", filepath.Base(dir), log.Name())
		}
	case <-timeout.C:
		d.stop()
		return nil, fmt.Errorf("%s did not start within %v: see %s", filepath.Base(dir), patience, log.Name())
	case <-ctx.Done():
		d.stop()
		return nil, ctx.Err()
	}
	if d.client, err = api.Dial(home.Dir(dir)); err != nil {
		d.stop()
		return nil, err
	}
	return d, nil
}

// stop ends the process, by force if it doesn't listen.
func (d *daemon) stop() error {
	if d.client != nil {
		d.client.Close()
	}
	defer d.log.Close()
	d.cmd.Process.Signal(os.Interrupt)
	timeout := time.NewTimer(stopPatience)
	defer timeout.Stop()
	select {
	case err := <-d.ended:
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() > 0 {
			return fmt.Errorf("%s ended with exit code %d", filepath.Base(d.home), exit.ExitCode())
		}
		return nil
	case <-timeout.C:
		d.cmd.Process.Kill()
		<-d.ended
		return fmt.Errorf("%s did not stop and was killed", filepath.Base(d.home))
	}
}
