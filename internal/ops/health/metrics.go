// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// maxClients is how many clients have series of their own: those with the lowest IDs. The totals have the others as well.
const maxClients = 256

// maxScrapes is how many may run at once. More are answered with 503.
const maxScrapes = 8

// Metrics answers Prometheus with what the daemon that describe describes counts, and with what is known of the process. Several may
// ask at once.
//
// Directions are the guests', as in node_exporter inside one: receive is what went to a guest, transmit is what it sent. So status's
// "to client" is receive here, and its "to net" is transmit. The number of series is bounded whatever clients do: maxClients clients have
// series of their own, and what they call themselves changes no label after it was seen first.
func Metrics(describe func() status.Status, log *slog.Logger) http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(newCollector(describe), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug), ErrorHandling: promhttp.HTTPErrorOnError, MaxRequestsInFlight: maxScrapes,
	})
}

// A collector makes metrics of a description.
type collector struct {
	describe func() status.Status
	descs    map[string]*prometheus.Desc // by the family's name

	mu     sync.Mutex
	labels map[uint64]labels // of the clients with series of their own, from one scrape to the next
}

// labels are those of a client. Once they are not empty they stay, since each new value is a new series.
type labels struct{ name, mac string }

func newCollector(describe func() status.Status) *collector {
	c := &collector{describe: describe, descs: map[string]*prometheus.Desc{}}
	for _, f := range families {
		c.descs[f.name] = prometheus.NewDesc(prefix+f.name, f.help, f.labels, nil)
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s, o := c.describe(), output{c.descs, ch}
	o.status(&s)
	o.network(&s.Network)
	own := slices.SortedFunc(slices.Values(s.Clients), func(a, b status.Client) int { return cmp.Compare(a.ID, b.ID) })
	own = own[:min(len(own), maxClients)]
	for i, n := range c.called(own) {
		o.client(&own[i], strconv.FormatUint(own[i].ID, 10), n.name, n.mac)
	}
}

// called is what the clients that have series of their own are called.
func (c *collector) called(own []status.Client) []labels {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, all := c.labels, make([]labels, len(own))
	c.labels = make(map[uint64]labels, len(own))
	for i := range own {
		x, n := &own[i], known[own[i].ID]
		all[i] = labels{cmp.Or(n.name, clean(x.Name), clean(x.Hostname)), cmp.Or(n.mac, clean(x.MAC))}
		c.labels[x.ID] = all[i]
	}
	return all
}

// MetricsPath is where the metrics are.
const MetricsPath = "/metrics"

// ListenMetrics takes the port.
func ListenMetrics(at netip.AddrPort) (*net.TCPListener, error) {
	ln, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
	if err == nil {
		return ln, nil
	}
	why := ""
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		why = "another program uses that port; end it or give --metrics-listen another port: "
	case errors.Is(err, syscall.EACCES):
		why = "this user may not use that port; give --metrics-listen one above 1023: "
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		why = "this host does not have that address: "
	}
	return nil, fmt.Errorf("listen for metrics at %s: %s%w", at, why, err)
}

// MetricsAlone has the metrics, which h answers with, be all that there is at a port: a program that connects to it can read and change
// nothing else.
func MetricsAlone(h http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+MetricsPath, h)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "there is only "+MetricsPath+" here", http.StatusNotFound)
	})
	return mux
}
