// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// scrape is the daemon's metrics at an address.
func (p *process) scrape(t *testing.T, addr string) string {
	t.Helper()
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr, Timeout: patience}).Get("http://" + addr + "/metrics")
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
