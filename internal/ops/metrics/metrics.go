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
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

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

	mu      sync.Mutex
	clients clients
}

func newCollector(describe func() status.Status) *collector {
	return &collector{describe: describe, clients: newClients()}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range families {
		ch <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	st := c.describe()
	out := output{ch}
	out.daemon(&st)
	out.network(&st.Network)
	out.totals(&st)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients.collect(out, st.Clients)
}

// output takes metrics.
type output struct{ ch chan<- prometheus.Metric }

// put adds a series of f. Labels may come from guests.
func (o output) put(f *family, v float64, labels ...string) {
	for i, l := range labels {
		labels[i] = clean(l)
	}
	o.ch <- prometheus.MustNewConstMetric(f.desc, f.kind, v, labels...)
}

// count adds a counter.
func (o output) count(f *family, v uint64, labels ...string) { o.put(f, float64(v), labels...) }

// reasons adds a counter for each reason, behind labels.
func (o output) reasons(f *family, drops map[string]uint64, labels ...string) {
	for reason, n := range byReason(drops) {
		o.count(f, n, append(append([]string{}, labels...), reason)...)
	}
}

// flag adds 1 for true.
func (o output) flag(f *family, v bool, labels ...string) {
	n := 0.0
	if v {
		n = 1
	}
	o.put(f, n, labels...)
}
