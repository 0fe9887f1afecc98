//go:build linux

package bench

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftmesh/weft/node/host"
	"github.com/weftmesh/weft/node/sessions"
	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/test/e2e/world"
)

// memoryStore is the size of a home in memory.
const memoryStore = 2 << 30

// stage is everything that takes part in BenchmarkCall, up and connected.
type stage struct {
	w     *world.World
	relay *world.Node

	raws  map[string]*stream
	wefts map[string]*weft
	paths []string // names of wefts in the order of the tables

	prov        *world.Node
	stdio, http *agent
	stdioID     string
	httpID      string

	unix, plain *agent
	sftp        *remote
	noSFTP      string

	serve map[string][]int
	dirs  map[string]string
}

// newStage starts it all.
func newStage(b *testing.B) *stage {
	b.Helper()
	w := world.New(b)
	s := &stage{w: w, raws: map[string]*stream{}, wefts: map[string]*weft{}, serve: map[string][]int{}, dirs: map[string]string{}}
	s.relay = w.Node(b, "relay", world.Config{Relay: true})
	s.streams(b)
	s.sessions(b)
	s.agents(b)
	s.others(b)
	b.Cleanup(func() {
		for _, dir := range s.dirs {
			checkEdits(b, filepath.Join(dir, "work"))
		}
	})
	return s
}

// folder plants the folder of a contender.
func (s *stage) folder(b *testing.B, name string) string {
	dir := filepath.Join(s.w.Dir, "folders", strings.ReplaceAll(name, " ", "-"))
	s.dirs[name] = dir
	return plant(b, dir, nil)
}

func (s *stage) streams(b *testing.B) {
	for name, listen := range map[string]string{"quic": onQUIC, "tcp": onTCP} {
		s.raws[name], s.serve["raw "+name] = rawStream(b, s.w, listen, nil)
	}
	s.raws["relay"], s.serve["raw relay"] = rawStream(b, s.w, onQUIC, s.relay)
	s.serve["raw relay"] = append(s.serve["raw relay"], s.relay.PID())
}

// sessions opens one session for each path of weft.
func (s *stage) sessions(b *testing.B) {
	open := func(name string, req *world.Node, home, listen string, relay []string, path host.Path) {
		s.paths = append(s.paths, name)
		n := newNear(b, home, listen, relay)
		if relay == nil {
			n.meet(b, req)
		} else {
			s.meetBehind(b, n, req)
		}
		s.wefts[name] = n.open(b, req, s.folder(b, name), path, "'true'")
		s.serve[name] = []int{req.PID()}
	}
	dir := func(name string) string { return filepath.Join(s.w.Dir, name) }
	quic := s.w.Node(b, "req-quic", world.Config{Listen: []string{onQUIC}})
	open("weft quic", quic, dir("near-quic"), onQUIC, nil, host.DirectQUIC)
	tcp := s.w.Node(b, "req-tcp", world.Config{Listen: []string{onTCP}})
	open("weft tcp", tcp, dir("near-tcp"), onTCP, nil, host.DirectTCP)
	at := s.relay.Addrs()[:1]
	far := s.w.Node(b, "req-relay", world.Config{Listen: []string{onQUIC}, Bootstrap: at, Args: []string{"--relay-only"}})
	open("weft relay", far, dir("near-relay"), onQUIC, at, host.Relay)
	s.serve["weft relay"] = append(s.serve["weft relay"], s.relay.PID())
	if os.Geteuid() == 0 { // it takes the right to mount
		mem := s.w.Node(b, "req-memory", world.Config{Listen: []string{onQUIC}, Stopped: true})
		mem.OnDisk(b, memoryStore)
		mem.Up(b)
		open("weft quic no sync", mem, memoryDir(b), onQUIC, nil, host.DirectQUIC)
	}
}

// memoryDir is a folder whose files are in memory.
func memoryDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "weft-bench-")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// meetBehind lets a daemon and a provider find each other through the relay,
// which knows both and so doesn't limit their circuits.
func (s *stage) meetBehind(b *testing.B, n *near, req *world.Node) {
	b.Helper()
	id := string(n.key.Public().PeerID())
	s.relay.Run(b, "peer", "add", id).OK(b)
	s.relay.Run(b, "peer", "add", req.Ready.PeerID).OK(b)
	world.Until(b, world.Patience, "the provider has a slot at the relay", func() string {
		if len(n.host.Relays()) == 0 {
			return "none yet"
		}
		return ""
	})
	via := s.relay.Addrs()[0] + "/p2p-circuit/p2p/"
	req.Run(b, "peer", "add", via+id).OK(b)
	key, err := identity.ParseID(req.Ready.PeerID)
	if err != nil {
		b.Fatal(err)
	}
	if err := n.host.Add(key, []string{via + req.Ready.PeerID}); err != nil {
		b.Fatal(err)
	}
}

// agents opens two sessions between daemons, with an MCP client each.
func (s *stage) agents(b *testing.B) {
	req := s.w.Node(b, "req-agent", world.Config{Listen: []string{onQUIC}})
	s.prov = s.w.Node(b, "prov-agent", world.Config{Listen: []string{onQUIC}})
	req.Run(b, "peer", "add", s.prov.Addrs()[0], "--name", "prov").OK(b)
	s.prov.Run(b, "peer", "add", req.Addrs()[0], "--name", "req").OK(b)
	accept := func(name string) string {
		id := share(b, req, terms(s.folder(b, name), s.prov.Ready.PeerID)).SessionID
		c := daemon(b, s.prov)
		defer c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), world.Patience)
		defer cancel()
		world.Until(b, world.Patience, "the offer is accepted", func() string {
			if err := c.Post(ctx, "/v1/offers/"+id+"/accept", nil, nil); err != nil {
				return err.Error()
			}
			return ""
		})
		world.Until(b, world.Patience, "the session is open", func() string {
			var v sessions.Session
			if err := c.Get(ctx, "/v1/sessions/"+id, &v); err != nil {
				return err.Error()
			}
			if v.State != "open" || v.Path != string(host.DirectQUIC) {
				return v.State + " over " + v.Path
			}
			return ""
		})
		return id
	}
	var pid int
	s.stdioID = accept("weft mcp stdio")
	s.stdio, pid = weftStdio(b, s.prov, s.stdioID)
	s.serve["weft mcp stdio"] = []int{req.PID(), s.prov.PID(), pid}
	s.httpID = accept("weft mcp http")
	s.http, pid = weftHTTP(b, s.prov, s.httpID)
	s.serve["weft mcp http"] = []int{req.PID(), s.prov.PID(), pid}
	b.Cleanup(func() {
		checkLog(b, req, s.stdioID, s.stdio.made.Load())
		checkLog(b, req, s.httpID, s.http.made.Load())
	})
}

// others starts what a person would use instead.
func (s *stage) others(b *testing.B) {
	s.folder(b, "mcp unix")
	s.unix, s.serve["mcp unix"] = plainUnix(b, s.w, s.dirs["mcp unix"])
	s.folder(b, "mcp http")
	s.plain, s.serve["mcp http"] = plainHTTP(b, s.w, s.dirs["mcp http"])
	s.folder(b, "sftp")
	s.sftp, s.serve["sftp"], s.noSFTP = newRemote(b, s.w, s.dirs["sftp"])
}
