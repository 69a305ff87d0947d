// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// prefix of every name of ours.
const prefix = "socket_vmnet2_"

// put adds a series to a family, with a value for each label. Labels may come from guests.
type put func(v float64, labels ...string)

// A scrape is what the series are made of.
type scrape struct {
	status.Status
	clients []client // with series of their own
}

// A client has the labels that all its series have.
type client struct {
	*status.Client
	labels []string
}

// A family is all series of one name.
type family struct {
	kind       prometheus.ValueType
	name, help string // without prefix
	labels     []string
	series     func(s *scrape, put put) // with what the name begins with, where that is a part of the network
}

func counter(name, help string, labels []string, series func(*scrape, put)) *family {
	return &family{prometheus.CounterValue, name, help, labels, series}
}

func gauge(name, help string, labels []string, series func(*scrape, put)) *family {
	return &family{prometheus.GaugeValue, name, help, labels, series}
}

// desc is f for Prometheus.
func (f *family) desc() *prometheus.Desc {
	return prometheus.NewDesc(prefix+f.name, f.help, f.labels, nil)
}

// perClient are the labels of a client's series.
func perClient(more ...string) []string { return append([]string{"client", "name", "mac"}, more...) }

// of has one series, with the value of which v is the source.
func of[N int | uint64 | float64](v func(s *scrape) N) func(*scrape, put) {
	return func(s *scrape, put put) { put(float64(v(s))) }
}

// each has series for each client.
func each(series func(c *client, put put)) func(*scrape, put) {
	return func(s *scrape, out put) {
		for i := range s.clients {
			c := &s.clients[i]
			series(c, func(v float64, labels ...string) { out(v, append(append([]string{}, c.labels...), labels...)...) })
		}
	}
}

// eachOf has one series for each client.
func eachOf[N uint64 | float64](v func(c *client) N) func(*scrape, put) {
	return each(func(c *client, put put) { put(float64(v(c))) })
}

// maxText is the longest value of a label in bytes.
const maxText = 128

// clean makes what may come from a guest or a system a value of a label: printable UTF-8, not too long.
func clean(s string) string { return printable.Line(s, maxText) }

// put adds a series for each reason of drops, without what all have in common, which says the metric's name already. Reasons that look
// alike are one.
func (put put) reasons(drops map[string]uint64) {
	sums := make(map[string]uint64, len(drops))
	for reason, n := range drops {
		sums[clean(strings.TrimPrefix(reason, "drop_"))] += n
	}
	for reason, n := range sums {
		put(float64(n), reason)
	}
}
