// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

func traffic(frames, bytes uint64, drops map[string]uint64) status.Traffic {
	return status.Traffic{Frames: frames, Bytes: bytes, Drops: drops}
}

// full is a status in which nothing is missing.
func full() status.Status {
	return status.Status{
		Daemon: status.Daemon{Version: "v1.2.3", Socket: "/var/run/socket_vmnet", Started: time.UnixMilli(1700000000500), Upgrades: 2, MaxClients: 300, Captures: status.Captures{Running: 1, Started: 31, Stalled: 30}},
		Network: status.Network{
			State: status.NetworkRunning, Backend: "usernet", Mode: "shared",
			Subnet: netip.MustParsePrefix("192.168.105.0/24"), Gateway: netip.MustParseAddr("192.168.105.1"),
			DHCP: &status.DHCP{Size: 252, Leased: 2, Leases: make([]status.Lease, 3), Unanswered: map[string]uint64{"pool_full": 4}},
			Usernet: &status.Usernet{
				TCPFlows: 5, UDPFlows: 6, Drops: map[string]uint64{"unwanted": 7},
				Forwards: []status.Forward{{Proto: "tcp"}, {Proto: "udp"}, {Proto: "tcp", Error: "too many open files"}},
			},
			Vmnet: &status.Vmnet{Own: 3, Shared: 1, Starts: 8, StartFailures: 9, Restarts: 10, Promoted: 11, Exhausted: 12, Wakes: 13},
		},
		Clients: []status.Client{{
			ID: 7, Name: "vm7", Transport: status.Stream, State: status.StateRunning, MAC: "02:00:00:00:00:07",
			Interface: status.Interface{Kind: status.InterfaceOwn},
			ToNet:     traffic(1, 100, map[string]uint64{"drop_storm": 2}), ToClient: traffic(3, 300, map[string]uint64{"drop_queue_full": 4, "lost_oversize": 1}),
			MACMoves: 6, Queue: status.Queue{Bytes: 77, Stalled: 1.5}, DHCP: status.ClientDHCP{Waiting: 2.5},
		}},
		Totals: status.Totals{
			Connects: 20, Refused: 22, Unserved: []status.Refusal{{Reason: "owned by root", Count: 37}}, ToNet: traffic(23, 24, map[string]uint64{"drop_storm": 25}), ToClient: traffic(26, 27, map[string]uint64{"drop_queue_full": 28}),
		},
		Health: []status.Problem{
			{Code: status.SlowClient, Severity: status.Warning}, {Code: status.SlowClient, Severity: status.Warning}, {Code: status.PoolExhausted, Severity: status.Error},
		},
	}
}

// TestAll compares every series of ours, and has the names checked by Prometheus's own rules.
func TestAll(t *testing.T) {
	want, err := os.ReadFile("testdata/full.txt")
	require.NoError(t, err)
	c := newCollector(full)
	assert.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(string(want))))
	problems, err := testutil.CollectAndLint(c)
	require.NoError(t, err)
	assert.Empty(t, problems)
	for _, f := range families {
		assert.Contains(t, string(want), "# HELP "+prefix+f.name+" ", "in testdata/full.txt")
	}
}

// TestPage: the page has every metric with its labels, and no other.
func TestPage(t *testing.T) {
	b, err := os.ReadFile("../../../docs/metrics.md")
	require.NoError(t, err)
	var want []string
	for _, f := range families {
		labels := "none"
		if len(f.labels) > 0 {
			labels = "`" + strings.Join(f.labels, "`, `") + "`"
		}
		want = append(want, fmt.Sprintf("| `%s` | %s | %s |", prefix+f.name, labels, strings.TrimSuffix(f.help, ".")))
	}
	rows := regexp.MustCompile("(?m)^\\| `socket_vmnet2_.*$").FindAllString(string(b), -1)
	slices.Sort(want)
	slices.Sort(rows)
	assert.Equal(t, want, rows)
	for _, name := range regexp.MustCompile(`socket_vmnet2_[a-z0-9_]*[a-z0-9]\b`).FindAllString(string(b), -1) {
		assert.True(t, slices.ContainsFunc(families, func(f family) bool { return prefix+f.name == name }), name)
	}
}

// TestPageConfig: what the page has for Prometheus is YAML, and asks the port that the page opens.
func TestPageConfig(t *testing.T) {
	b, err := os.ReadFile("../../../docs/metrics.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(b, -1)
	require.Len(t, blocks, 2)
	for i, key := range []string{"scrape_configs", "groups"} {
		var config map[string][]any
		require.NoError(t, yaml.Unmarshal(blocks[i][1], &config))
		assert.Len(t, config[key], 1)
	}
	target := regexp.MustCompile(`targets: \["?([0-9.:]+)"?\]`).FindSubmatch(blocks[0][1])
	require.NotNil(t, target)
	assert.Contains(t, string(b), "--metrics-listen="+string(target[1])+" ")
}

// TestEmpty: a daemon that has just begun to start has metrics, too.
func TestEmpty(t *testing.T) {
	rec := scraped(t, func() status.Status { return status.Status{} })
	assert.Equal(t, http.StatusOK, rec.Code)
	assert.Contains(t, rec.Body.String(), "\nsocket_vmnet2_network_up 0\n")
	assert.Contains(t, rec.Body.String(), "\nsocket_vmnet2_clients 0\n")
	assert.Contains(t, rec.Body.String(), "\ngo_goroutines ")
	assert.NotContains(t, rec.Body.String(), "socket_vmnet2_dhcp")
	assert.NotContains(t, rec.Body.String(), "socket_vmnet2_client_info")
}

func scraped(t *testing.T, describe func() status.Status) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	Metrics(describe, slog.New(slog.DiscardHandler)).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.True(t, utf8.Valid(rec.Body.Bytes()))
	return rec
}

// TestHostileTexts: what clients call themselves cannot break the format, and is cut.
func TestHostileTexts(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"quotes", `a"} 1`, `a\"} 1`},
		{"backslash", `\`, `\\`},
		{"line", "a\nb", "a b"},
		{"escape", "\x1b[31mred", "?[31mred"},
		{"not UTF-8", "a\xffb", "a?b"},
		{"right to left", "a\u202eb", "a?b"},
		{"letters of others", "süß", "süß"},
		{"long", strings.Repeat("ü", 100), strings.Repeat("ü", maxText/2)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st := full()
			st.Clients[0].Name, st.Clients[0].MAC, st.Clients[0].Transport, st.Clients[0].State = tt.in, tt.in, tt.in, tt.in
			st.Network.Mode, st.Daemon.Version, st.Daemon.Socket = tt.in, tt.in, tt.in
			st.Health = []status.Problem{{Code: tt.in}}
			st.Clients[0].ToNet.Drops = map[string]uint64{tt.in: 1}
			rec := scraped(t, func() status.Status { return st })
			assert.Equal(t, http.StatusOK, rec.Code)
			assert.Contains(t, rec.Body.String(), `client_queue_bytes{client="7",mac="`+tt.want+`",name="`+tt.want+`"} 77`)
		})
	}
}

// TestLabelsStay: a guest that calls itself otherwise all the time makes no series.
func TestLabelsStay(t *testing.T) {
	st := full()
	x := &st.Clients[0]
	x.Name, x.MAC = "", ""
	c := newCollector(func() status.Status { return st })
	names := func() string { return strings.Join(series(t, c, "client_queue_bytes"), " ") }
	assert.Equal(t, `socket_vmnet2_client_queue_bytes{client="7",mac="",name=""} 77`, names())
	x.Hostname, x.MAC = "first", "02:00:00:00:00:01"
	want := `socket_vmnet2_client_queue_bytes{client="7",mac="02:00:00:00:00:01",name="first"} 77`
	assert.Equal(t, want, names())
	x.Hostname, x.MAC, x.Name = "second", "02:00:00:00:00:02", "third"
	assert.Equal(t, want, names())
	st.Clients = nil
	assert.Empty(t, names())
	assert.Empty(t, c.labels, "nothing is remembered of those that have left")
}

// series are those of one of our families, as Prometheus reads them.
func series(t *testing.T, c prometheus.Collector, family string) []string {
	t.Helper()
	reg, rec := prometheus.NewPedanticRegistry(), httptest.NewRecorder()
	require.NoError(t, reg.Register(c))
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return regexp.MustCompile(`(?m)^`+prefix+family+`\{.*`).FindAllString(rec.Body.String(), -1)
}

// TestManyClients: the oldest have series of their own, until they leave.
func TestManyClients(t *testing.T) {
	var st status.Status
	c := newCollector(func() status.Status { return st })
	own := func() string { return strings.Join(series(t, c, "client_info"), "\n") }
	for id := uint64(300); id > 0; id-- { // the oldest last
		st.Clients = append(st.Clients, status.Client{ID: id})
	}
	assert.Equal(t, 256, strings.Count(own(), "client="))
	assert.NotContains(t, own(), `client="257"`)
	st.Clients = st.Clients[:299]
	assert.Contains(t, own(), `client="257"`)
	assert.NotContains(t, own(), `client="258"`)
}

// TestAlone: nothing but the metrics is at their port.
func TestAlone(t *testing.T) {
	for _, tt := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/metrics", http.StatusOK},
		{"HEAD", "/metrics", http.StatusOK},
		{"GET", "/", http.StatusNotFound},
		{"POST", "/metrics", http.StatusNotFound},
	} {
		req, rec := httptest.NewRequest(tt.method, tt.path, nil), httptest.NewRecorder()
		MetricsAlone(Metrics(full, slog.New(slog.DiscardHandler))).ServeHTTP(rec, req)
		assert.Equal(t, tt.want, rec.Code, "%v", tt)
		assert.Equal(t, tt.want == http.StatusOK, strings.Contains(rec.Body.String(), "socket_vmnet2_clients 1"), "%v", tt)
	}
}

// TestPortInUse says what to do.
func TestPortInUse(t *testing.T) {
	ln, err := ListenMetrics(netip.MustParseAddrPort("127.0.0.1:0"))
	require.NoError(t, err)
	defer ln.Close()
	_, err = ListenMetrics(ln.Addr().(*net.TCPAddr).AddrPort())
	require.ErrorContains(t, err, "another program uses that port; end it or give --metrics-listen another port")
	_, err = ListenMetrics(netip.MustParseAddrPort("192.0.2.1:0"))
	assert.ErrorContains(t, err, "this host does not have that address")
}

// TestPanicIsContained: on a goroutine of Prometheus's it would end the daemon.
func TestPanicIsContained(t *testing.T) {
	rec := scraped(t, func() status.Status { panic("oh") })
	assert.Equal(t, http.StatusInternalServerError, rec.Code)
	assert.Contains(t, rec.Body.String(), "error=oh")
}

// TestSameReason: what would become one series becomes one.
func TestSameReason(t *testing.T) {
	st := full()
	st.Clients[0].ToNet.Drops = map[string]uint64{"drop_x": 1, "x": 2, "a\x01": 3, "a\x02": 4}
	st.Health = []status.Problem{{Code: "a\x01"}, {Code: "a\x02"}}
	body := scraped(t, func() status.Status { return st }).Body.String()
	assert.Contains(t, body, `reason="x"} 3`)
	assert.Contains(t, body, `reason="a?"} 7`)
	assert.Contains(t, body, `health_problems{code="a?",severity=""} 2`)
}
