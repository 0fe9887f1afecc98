package node

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// maxScrapes bounds how many collections run at once.
const maxScrapes = 4

// newRegistry makes the node's registry. It isn't the process-wide default, so
// that several nodes can live in one process.
func newRegistry(n *Node) *prometheus.Registry {
	b := BuildInfo()
	reg := prometheus.NewRegistry()
	reg.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "weft_build_info", Help: "Always 1; the labels say what was built.",
			ConstLabels: prometheus.Labels{"version": b.Version, "go": b.Go},
		}, func() float64 { return 1 }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "weft_uptime_seconds", Help: "Time since the node started.",
		}, func() float64 { return time.Since(n.started).Seconds() }),
		&nodeCollector{n: n},
	)
	return reg
}

// nodeCollector reads the node's own numbers when it is scraped.
type nodeCollector struct{ n *Node }

var (
	descStore    = prometheus.NewDesc("weft_store_bytes", "Size of the store on disk.", nil, nil)
	descContacts = prometheus.NewDesc("weft_contacts", "Peers that the owner added.", nil, nil)
	descPeers    = prometheus.NewDesc("weft_peers_connected", "Connected peers by path.", []string{"path"}, nil)
	descSessions = prometheus.NewDesc("weft_sessions_open", "Workspace sessions that are open.", nil, nil)
	descRelays   = prometheus.NewDesc("weft_relays", "Relays on which a reservation is held.", nil, nil)
)

// Describe lists what Collect gives.
func (c *nodeCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descStore, descContacts, descPeers, descSessions, descRelays} {
		ch <- d
	}
}

// Collect reads the numbers. It is called only by scrapes, which the API
// serves only while the node is whole.
func (c *nodeCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.n.Status()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(descStore, float64(s.Store.Bytes))
	gauge(descContacts, float64(len(c.n.book.All())))
	gauge(descSessions, float64(s.Sessions))
	gauge(descRelays, float64(len(s.Relays)))
	paths := map[string]int{}
	for _, p := range s.Peers {
		if p.Connected {
			paths[p.Path]++
		}
	}
	for path, count := range paths {
		gauge(descPeers, float64(count), path)
	}
}

func (n *Node) getMetrics(w http.ResponseWriter, r *http.Request) error {
	promhttp.HandlerFor(n.metrics, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes}).ServeHTTP(w, r)
	return nil
}
