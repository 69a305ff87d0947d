// SPDX-License-Identifier: Apache-2.0

// Package metrics tells Prometheus what a daemon counts, from the same description that GET /v1/status answers with.
//
// Directions are the guests', as in node_exporter inside one: receive is what went to a guest, transmit is what it sent. So status's
// "to client" is receive here, and its "to net" is transmit.
//
// The number of series is bounded whatever clients do: maxClients clients have series of their own, and what they call themselves
// changes no label after it was seen first.
package metrics

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// maxClients is how many clients have series of their own: those with the lowest IDs. The totals have the others as well.
const maxClients = 256

// maxScrapes is how many may run at once. More are answered with 503.
const maxScrapes = 8

// Handler answers with all metrics of the daemon that describe describes, and those of the process. Several may ask at once.
func Handler(describe func() status.Status, log *slog.Logger) http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(newCollector(describe), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{
		ErrorLog: errorLog{log}, ErrorHandling: promhttp.HTTPErrorOnError, MaxRequestsInFlight: maxScrapes,
	})
}

// errorLog is what promhttp tells errors to.
type errorLog struct{ log *slog.Logger }

// Println implements promhttp.Logger.
func (l errorLog) Println(v ...any) {
	if l.log != nil {
		l.log.Debug("metrics cannot be given", "error", fmt.Sprint(v...))
	}
}

// A collector makes metrics of a description.
type collector struct {
	describe func() status.Status
	limit    int // maxClients; tests have less

	mu    sync.Mutex
	names map[uint64]names // of the clients with series of their own, from one scrape to the next
}

// names are the labels of a client. Once they are not empty they stay, since each new value is a new series.
type names struct{ name, mac string }

func newCollector(describe func() status.Status) *collector {
	return &collector{describe: describe, limit: maxClients}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range families {
		ch <- f.desc()
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := &scrape{Status: c.describe()}
	s.clients = c.clients(s.Clients)
	absent := map[string]bool{"dhcp": s.Network.DHCP == nil, "usernet": s.Network.Usernet == nil, "vmnet": s.Network.Vmnet == nil}
	for _, f := range families {
		if kind, _, _ := strings.Cut(f.name, "_"); absent[kind] {
			continue
		}
		desc := f.desc()
		f.series(s, func(v float64, labels ...string) {
			for i, l := range labels {
				labels[i] = clean(l)
			}
			ch <- prometheus.MustNewConstMetric(desc, f.kind, v, labels...)
		})
	}
}

// clients are those of all that have series of their own, with what they are called.
func (c *collector) clients(all []status.Client) []client {
	all = slices.SortedFunc(slices.Values(all), func(a, b status.Client) int { return cmp.Compare(a.ID, b.ID) })
	own := make([]client, min(len(all), c.limit))
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.names
	c.names = make(map[uint64]names, len(own))
	for i := range own {
		x := &all[i]
		n := known[x.ID]
		n.name, n.mac = cmp.Or(n.name, clean(x.Name), clean(x.Hostname)), cmp.Or(n.mac, clean(x.MAC))
		c.names[x.ID] = n
		own[i] = client{x, []string{strconv.FormatUint(x.ID, 10), n.name, n.mac}}
	}
	return own
}
