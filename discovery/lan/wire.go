package lan

import (
	"errors"
	"fmt"
	"net"
	"strings"

	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/weftmesh/weft/protocols/identity"
)

const (
	// ServiceName is what weft nodes announce and ask for.
	ServiceName = "_weft._udp"
	// maxPacket is the largest mDNS message (RFC 6762 section 17).
	maxPacket = 9000
	// sendPacket keeps what we send within one Ethernet frame.
	sendPacket = 1400
	// maxAddrs and maxAddrLen bound what one packet can say of a peer.
	maxAddrs, maxAddrLen = 16, 256
	// maxRecords bounds the records looked at in one packet.
	maxRecords = 64
	// recordTTL is RFC 6762's 75 minutes in seconds; we ask far more often.
	recordTTL = 4500
	txtPrefix = "dnsaddr="
)

// message is what one packet means to us.
type message struct {
	ask     bool // asks for our service
	answers []heard
}

// heard is what a packet says of one peer.
type heard struct {
	peer    identity.PublicKey
	addrs   []string
	goodbye bool // the peer leaves (TTL 0)
}

var errPacket = errors.New("not a packet for us")

// decode reads a packet from the network. loopback says that it came by the
// loopback interface. Everything that is not ours is skipped, and what is
// malformed is an error.
func decode(raw []byte, service string, loopback bool) (message, error) {
	var m message
	if len(raw) > maxPacket {
		return m, fmt.Errorf("%w: %d bytes", errPacket, len(raw))
	}
	var p dnsmessage.Parser
	head, err := p.Start(raw)
	if err != nil {
		return m, fmt.Errorf("%w: %v", errPacket, err)
	}
	name := strings.ToLower(service + ".local.")
	if !head.Response {
		for range maxRecords {
			q, err := p.Question()
			if errors.Is(err, dnsmessage.ErrSectionDone) {
				break
			}
			if err != nil {
				return m, fmt.Errorf("%w: %v", errPacket, err)
			}
			ptr := q.Type == dnsmessage.TypePTR || q.Type == dnsmessage.TypeALL
			m.ask = m.ask || ptr && strings.ToLower(q.Name.String()) == name
		}
		return m, nil
	}
	if err := p.SkipAllQuestions(); err != nil {
		return m, fmt.Errorf("%w: %v", errPacket, err)
	}
	d := decoder{p: &p, suffix: "." + name, loopback: loopback}
	for _, section := range []func() (dnsmessage.ResourceHeader, error){p.AnswerHeader, p.AuthorityHeader, p.AdditionalHeader} {
		if err := d.section(section); err != nil {
			return m, err
		}
	}
	m.answers = d.out
	return m, nil
}

type decoder struct {
	p        *dnsmessage.Parser
	suffix   string
	loopback bool
	seen     int
	out      []heard
}

// section reads the TXT records of our service in one section; skipping a
// record works the same in each.
func (d *decoder) section(next func() (dnsmessage.ResourceHeader, error)) error {
	for ; d.seen < maxRecords; d.seen++ {
		h, err := next()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %v", errPacket, err)
		}
		if h.Type != dnsmessage.TypeTXT || !strings.HasSuffix(strings.ToLower(h.Name.String()), d.suffix) {
			if err := d.skip(); err != nil {
				return err
			}
			continue
		}
		r, err := d.p.TXTResource()
		if err != nil {
			return fmt.Errorf("%w: %v", errPacket, err)
		}
		d.add(r.TXT, h.TTL == 0)
	}
	return fmt.Errorf("%w: more than %d records", errPacket, maxRecords)
}

// skip passes over the record whose header was just read.
func (d *decoder) skip() error {
	if _, err := d.p.UnknownResource(); err != nil {
		return fmt.Errorf("%w: %v", errPacket, err)
	}
	return nil
}

func (d *decoder) add(txt []string, goodbye bool) {
	for _, t := range txt {
		s, ok := strings.CutPrefix(t, txtPrefix)
		if !ok || len(s) > maxAddrLen {
			continue
		}
		k, addr, err := parse(s, d.loopback)
		if err != nil {
			continue
		}
		i := 0
		for i < len(d.out) && d.out[i].peer != k {
			i++
		}
		if i == len(d.out) {
			if i == maxAddrs {
				return
			}
			d.out = append(d.out, heard{peer: k, goodbye: goodbye})
		}
		if len(d.out[i].addrs) < maxAddrs {
			d.out[i].addrs = append(d.out[i].addrs, addr)
		}
	}
}

// parse splits /ip4/.../p2p/ID and refuses what can't be on a local network.
func parse(s string, loopback bool) (identity.PublicKey, string, error) {
	a, err := ma.NewMultiaddr(s)
	if err != nil || len(a) < 3 {
		return identity.PublicKey{}, "", errPacket
	}
	rest, last := a[:len(a)-1], a[len(a)-1]
	if last.Protocol().Code != ma.P_P2P {
		return identity.PublicKey{}, "", errPacket
	}
	k, err := identity.ParseID(last.Value())
	if err != nil {
		return identity.PublicKey{}, "", err
	}
	if !usable(rest, loopback) {
		return identity.PublicKey{}, "", errPacket
	}
	return k, rest.String(), nil
}

// usable accepts exactly /ip/tcp and /ip/udp/quic-v1 of a unicast address.
func usable(a ma.Multiaddr, loopback bool) bool {
	var codes []int
	for _, c := range a {
		codes = append(codes, c.Protocol().Code)
	}
	if len(codes) < 2 || codes[0] != ma.P_IP4 && codes[0] != ma.P_IP6 {
		return false
	}
	tcp := len(codes) == 2 && codes[1] == ma.P_TCP
	quic := len(codes) == 3 && codes[1] == ma.P_UDP && codes[2] == ma.P_QUIC_V1
	ip, err := manet.ToIP(a)
	if err != nil || !tcp && !quic {
		return false
	}
	if ip.IsLoopback() {
		return loopback
	}
	// Link-local IPv6 is no use without a zone, which does not travel.
	return !ip.IsUnspecified() && !ip.IsMulticast() && !ip.Equal(net.IPv4bcast) && !ip.IsLinkLocalUnicast()
}

// encodeQuestion asks for the service.
func encodeQuestion(service string) ([]byte, error) {
	name, err := dnsmessage.NewName(service + ".local.")
	if err != nil {
		return nil, err
	}
	m := dnsmessage.Message{Questions: []dnsmessage.Question{
		{Name: name, Type: dnsmessage.TypePTR, Class: dnsmessage.ClassINET},
	}}
	return m.Pack()
}

// encodeAnswer announces us at as many of addrs, best first, as fit in one
// frame. ttl 0 says goodbye.
func encodeAnswer(service, instance string, self identity.PublicKey, addrs []string, loopback bool, ttl uint32) ([]byte, error) {
	name, err := dnsmessage.NewName(service + ".local.")
	if err != nil {
		return nil, err
	}
	own, err := dnsmessage.NewName(instance + "." + service + ".local.")
	if err != nil {
		return nil, err
	}
	var txt []string
	size := 0
	for _, s := range addrs {
		a, err := ma.NewMultiaddr(s)
		if err != nil || !usable(a, loopback) {
			continue
		}
		line := txtPrefix + s + "/p2p/" + self.String()
		// A TXT string holds 255 bytes; 300 are for the names and headers.
		if len(line) > 255 || size+len(line)+1 > sendPacket-300 || len(txt) == maxAddrs {
			continue
		}
		size += len(line) + 1
		txt = append(txt, line)
	}
	if len(txt) == 0 {
		return nil, fmt.Errorf("no address to announce")
	}
	m := dnsmessage.Message{
		Header: dnsmessage.Header{Response: true, Authoritative: true},
		Answers: []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: name, Type: dnsmessage.TypePTR, Class: dnsmessage.ClassINET, TTL: ttl},
			Body:   &dnsmessage.PTRResource{PTR: own},
		}},
		Additionals: []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: own, Type: dnsmessage.TypeTXT, Class: dnsmessage.ClassINET | 1<<15, TTL: ttl},
			Body:   &dnsmessage.TXTResource{TXT: txt},
		}},
	}
	return m.Pack()
}
