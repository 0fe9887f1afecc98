package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/store"
	"github.com/weftmesh/weft/workspace/command"
)

// Check is one finding of the doctor. OK with a Fix is a warning: it works,
// and could be better.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Fix    string `json:"fix"`
}

// Checkup is what the doctor found.
type Checkup struct {
	Checks []Check `json:"checks"`
}

// Thresholds of the doctor.
const (
	// minFree is room for a day of busy logs and the store's own tables.
	minFree = 256 << 20
	// slowWrite is far beyond what a sync costs on a working disk.
	slowWrite = time.Second
	// minDescriptors is what a laptop profile can use: connections, streams,
	// the store and a few commands.
	minDescriptors = 1024
	// clockSlack forgives small steps by a time service.
	clockSlack = time.Minute
	// checkWait bounds all checks together.
	checkWait = 20 * time.Second
)

func (n *Node) getDoctor(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), checkWait)
	defer cancel()
	return api.Reply(w, Checkup{Checks: n.Doctor(ctx)})
}

// Doctor looks at everything that commonly goes wrong, all at once, and
// returns the findings in a fixed order.
func (n *Node) Doctor(ctx context.Context) []Check {
	looks := []func(context.Context) []Check{
		n.checkHome, n.checkStore, n.checkDisk, n.checkClock, n.checkDescriptors,
		n.checkUDP, n.checkListeners, n.checkRelays, n.checkSandbox,
	}
	for _, c := range n.parts {
		if c, ok := c.(checker); ok {
			looks = append(looks, c.Checks)
		}
	}
	found := make([][]Check, len(looks))
	var all sync.WaitGroup
	for i, look := range looks {
		all.Go(func() { found[i] = look(ctx) })
	}
	all.Wait()
	var out []Check
	for _, f := range found {
		out = append(out, f...)
	}
	return out
}

func pass(name, format string, args ...any) []Check {
	return []Check{{Name: name, OK: true, Detail: fmt.Sprintf(format, args...)}}
}

func warn(name, fix, format string, args ...any) []Check {
	return []Check{{Name: name, OK: true, Fix: fix, Detail: fmt.Sprintf(format, args...)}}
}

func fail(name, fix, format string, args ...any) []Check {
	return []Check{{Name: name, Fix: fix, Detail: fmt.Sprintf(format, args...)}}
}

// checkHome looks whether anyone else could read what is the owner's alone.
func (n *Node) checkHome(context.Context) []Check {
	const name = "home"
	if runtime.GOOS == "windows" {
		return pass(name, "%s; access lists are not looked at on Windows", n.cfg.Home)
	}
	for path, most := range map[string]os.FileMode{
		string(n.cfg.Home): 0o755, n.cfg.Home.Key(): 0o600, n.cfg.Home.Store(): 0o700,
		n.cfg.Home.API(): 0o700, n.cfg.Home.API() + "/token": 0o600,
	} {
		st, err := os.Stat(path)
		if err != nil {
			return fail(name, "restart weft", "%v", err)
		}
		if extra := st.Mode().Perm() &^ most; extra != 0 {
			return fail(name, fmt.Sprintf("chmod %o '%s'", most, path), "%s has mode %o: others get at it", path, st.Mode().Perm())
		}
	}
	return pass(name, "%s and its key and token are the owner's alone", n.cfg.Home)
}

// checkStore makes one durable write.
func (n *Node) checkStore(ctx context.Context) []Check {
	const name = "store"
	began := time.Now()
	err := n.db.Update(ctx, func(tx *store.Tx) error {
		return stamps.Put(tx, stampKey, laterStamp(tx, began))
	})
	took := time.Since(began).Round(time.Millisecond / 10)
	switch {
	case errors.Is(err, store.ErrFull):
		return fail(name, "free some disk space", "%v", err)
	case err != nil:
		return fail(name, "restart weft; if it stays, look at the disk (dmesg)", "%v", err)
	case took > slowWrite:
		return warn(name, "look for a busy or failing disk", "a durable write took %v", took)
	}
	return pass(name, "a durable write took %v; %s on disk", took, SizeText(n.db.Size()))
}

func (n *Node) checkDisk(context.Context) []Check {
	const name = "disk"
	free, err := freeSpace(string(n.cfg.Home))
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return pass(name, "free space is not looked at on %s", runtime.GOOS)
	case err != nil:
		return fail(name, "", "%v", err)
	case free < minFree:
		return fail(name, "free some disk space; without it no call can be logged, so none runs", "%s free", SizeText(free))
	}
	return pass(name, "%s free", SizeText(free))
}

// checkClock looks for a clock that is clearly wrong: grants and tickets end
// by it. Nobody is asked for the time; a relay's reservation tells it anyway.
func (n *Node) checkClock(context.Context) []Check {
	const name = "clock"
	const fix = "set the clock (timedatectl set-ntp true), then restart weft"
	now := time.Now()
	if built := BuildInfo().Time; now.Before(built) {
		return fail(name, fix, "the clock says %s, before this program was built", now.UTC().Format(time.RFC3339))
	}
	var last time.Time
	err := n.db.View(func(tx *store.Tx) (err error) {
		last, err = stamps.Get(tx, stampKey)
		return err
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return fail("clock", "", "%v", err)
	}
	if behind := last.Sub(now); behind > clockSlack {
		return fail(name, fix, "the clock is %v behind what it was before", behind.Round(time.Second))
	}
	for _, r := range n.host.RelayStates() {
		if r.ClockSkew {
			return fail(name, fix, "the clocks here and at relay %s differ by an hour or more", r.Peer)
		}
	}
	if synced, known := clockSynced(); known && !synced {
		return warn(name, "turn on a time service (timedatectl set-ntp true)", "%s, which no time service keeps right", now.UTC().Format(time.RFC3339))
	}
	return pass(name, "%s", now.UTC().Format(time.RFC3339))
}

func (n *Node) checkDescriptors(context.Context) []Check {
	const name = "descriptors"
	limit, err := descriptorLimit()
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return pass(name, "%s has no such limit", runtime.GOOS)
	case err != nil:
		return fail(name, "", "%v", err)
	case limit < minDescriptors:
		return fail(name, fmt.Sprintf("ulimit -n %d before weft up", minDescriptors), "only %d open files are allowed", limit)
	}
	return pass(name, "%d open files are allowed", limit)
}

// wantUDP is the buffer that quic-go asks for.
const wantUDP = 7 << 20

func (n *Node) checkUDP(context.Context) []Check {
	const name = "udp buffers"
	got, err := udpBuffer(wantUDP)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return pass(name, "not looked at on %s", runtime.GOOS)
	case err != nil:
		return fail(name, "", "%v", err)
	case got < wantUDP:
		return warn(name, fmt.Sprintf("sysctl -w net.core.rmem_max=%d net.core.wmem_max=%d", wantUDP, wantUDP),
			"the system gives %s, QUIC wants %s: fast links stay below their speed", SizeText(int64(got)), SizeText(wantUDP))
	}
	return pass(name, "%s", SizeText(int64(got)))
}

func (n *Node) checkListeners(context.Context) []Check {
	const name = "listeners"
	addrs := n.host.Addrs()
	direct := 0
	for _, a := range addrs {
		if classify(a).Scope != "relay" {
			direct++
		}
	}
	if direct == 0 {
		return fail(name, "give an address to listen on (weft up --listen /ip4/0.0.0.0/udp/0/quic-v1), and look for a firewall", "no address to be reached at directly")
	}
	return pass(name, "%d addresses, %s", len(addrs), n.host.Reachability())
}

// checkRelays looks at the bootstrap peers. One that isn't a relay is fine as
// long as another one is.
func (n *Node) checkRelays(ctx context.Context) []Check {
	const name = "relays"
	relays := n.relays(ctx)
	var lost, without []string
	reserved := 0
	for _, r := range relays {
		switch {
		case r.Error != "":
			lost = append(lost, r.PeerID)
		case r.Reserved:
			reserved++
		default:
			without = append(without, r.PeerID+": "+r.Problem)
		}
	}
	switch {
	case len(relays) == 0:
		return pass(name, "none configured")
	case len(lost) > 0:
		return fail(name, "check that it runs and that its address is right (weft status there)", "no answer from %s", strings.Join(lost, ", "))
	case reserved == 0:
		return warn(name, "start one of them with --relay, or add one that is", "they answer, but none relays for us: %s", strings.Join(without, "; "))
	}
	return pass(name, "%d of %d relay for us", reserved, len(relays))
}

func (n *Node) checkSandbox(context.Context) []Check {
	s := command.Probe()
	if !s.Available {
		return fail("sandbox", s.Fix, "commands can't run in a granted folder: %s", s.Reason)
	}
	return pass("sandbox", "%s", s.Kind)
}

// stamps remembers the latest time that the clock showed, so that a clock that
// fell back is noticed.
var stamps = store.NewCollection[time.Time]("clock")

const stampKey = "latest"

// laterStamp is now, or the stored stamp if that is later.
func laterStamp(tx *store.Tx, now time.Time) time.Time {
	if last, err := stamps.Get(tx, stampKey); err == nil && last.After(now) {
		return last
	}
	return now.UTC()
}
