// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// scrape is the daemon's metrics, from its control socket, or from an address that is not empty.
func (p *process) scrape(t *testing.T, addr string) string {
	t.Helper()
	network := "tcp"
	if addr == "" {
		network, addr = "unix", p.sock+".d/control"
	}
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr, Timeout: patience}).Get("http://localhost/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, string(b))
	assert.True(t, strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain"), resp.Header)
	return string(b)
}

// metric is the value of a series in a scrape, -1 if there is none.
func metric(t *testing.T, scrape, series string) float64 {
	t.Helper()
	for line := range strings.Lines(scrape) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			require.NoError(t, err)
			return v
		}
	}
	return -1
}

// metricsAddr is where the daemon says that its metrics are.
func (p *process) metricsAddr(t *testing.T) string {
	t.Helper()
	re := regexp.MustCompile(`metrics can be read url=http://(\S+)/metrics`)
	require.Eventually(t, func() bool { return re.MatchString(p.stderr.String()) }, patience, time.Millisecond)
	return re.FindStringSubmatch(p.stderr.String())[1]
}

// TestMetrics: both ways tell the same, what a client did is in them, and it is not forgotten when the client leaves.
func TestMetrics(t *testing.T) {
	p := start(t, "--metrics-listen=127.0.0.1:0")
	addr := p.metricsAddr(t)
	tk := p.talkers(t)
	tk.check("hello")
	p.serving(t, 2)
	for _, from := range []string{"", addr} {
		s := p.scrape(t, from)
		assert.InDelta(t, 2.0, metric(t, s, "socket_vmnet2_clients"), 0)
		assert.InDelta(t, 1.0, metric(t, s, "socket_vmnet2_network_up"), 0)
		assert.Contains(t, s, `socket_vmnet2_network_info{backend="`)
		assert.Contains(t, s, `mac="02:00:00:00:00:a1"`)
		assert.Positive(t, metric(t, s, "process_open_fds")*metric(t, s, "go_goroutines"))
	}
	before := p.scrape(t, addr)
	_ = tk.a.Close()
	_ = tk.b.Close()
	require.Eventually(t, func() bool { return metric(t, p.scrape(t, ""), "socket_vmnet2_clients") == 0 }, patience, 10*time.Millisecond)
	after := p.scrape(t, addr)
	assert.NotContains(t, after, "socket_vmnet2_client_info{")
	counters := 0
	for line := range strings.Lines(before) {
		series, _, _ := strings.Cut(line, " ")
		if name, _, _ := strings.Cut(series, "{"); !strings.HasSuffix(name, "_total") || strings.Contains(series, "client=") {
			continue
		}
		counters++
		assert.GreaterOrEqual(t, metric(t, after, series), metric(t, before, series), series)
	}
	assert.Greater(t, counters, 10)
	assert.Positive(t, metric(t, after, "socket_vmnet2_network_transmit_packets_total"))
}
