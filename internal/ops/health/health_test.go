// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/freenet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/health"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is when the clock of these tests begins.
var start = time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)

// A world is a status document that changes, and the Monitor that looks at it.
type world struct {
	status.Status
	log vnettest.Log
	m   *health.Monitor

	mu    sync.Mutex // of what follows, and of Status where the Monitor looks by itself
	waits time.Time  // since when the guest of client 1 waits for DHCP
	looks int
}

// newWorld is a daemon on the embedded network without a problem, with clients 1 … n that have been there for an hour.
func newWorld(t *testing.T, n int, options ...func(*health.Options)) *world {
	w := &world{Status: status.Status{
		Now: start,
		Daemon: status.Daemon{
			Version: "v0.0.0-test", Socket: "/run/vm.sock", StateFile: "/state/x", MaxClients: 256, QueueSize: 2 << 20,
			Started: start.Add(-2 * time.Hour), Uptime: 7200,
		},
		Network: status.Network{
			State: status.NetworkRunning, Backend: "usernet", Mode: "shared", Subnet: netip.MustParsePrefix("192.168.105.0/24"),
			Gateway: netip.MustParseAddr("192.168.105.1"),
			DHCP: &status.DHCP{
				Start: netip.MustParseAddr("192.168.105.2"), End: netip.MustParseAddr("192.168.105.253"), Size: 252,
				Unanswered: map[string]uint64{},
			},
			Usernet: &status.Usernet{HostAddress: netip.MustParseAddr("192.168.105.254"), Drops: map[string]uint64{}},
		},
	}}
	for id := range n {
		w.Clients = append(w.Clients, client(uint64(id+1)))
	}
	o := health.Options{Log: slog.New(slog.NewTextHandler(&w.log, nil)), Status: w.status}
	for _, change := range options {
		change(&o)
	}
	w.m = health.New(o)
	t.Cleanup(w.m.Close)
	return w
}

func client(id uint64) status.Client {
	return status.Client{
		ID: id, Transport: status.Stream, FD: 10 + int(id), MAC: "52:54:00:00:00:" + string(rune('0'+id/10)) + string(rune('0'+id%10)),
		IP: netip.AddrFrom4([4]byte{192, 168, 105, byte(id + 1)}), State: status.StateRunning,
		Connected: start.Add(-time.Hour), Age: 3600,
		ToNet:    status.Traffic{Frames: 1000, Drops: map[string]uint64{}},
		ToClient: status.Traffic{Frames: 1000, Drops: map[string]uint64{}},
	}
}

// onVmnet makes w a network of vmnet.
func (w *world) onVmnet() {
	w.Network.Backend, w.Network.Usernet = "vmnet", nil
	w.Network.DHCP.Size, w.Network.DHCP.Unanswered = 0, nil
	w.Network.Vmnet = &status.Vmnet{API: "interface", Own: len(w.Clients)}
}

// after lets d pass.
func (w *world) after(d time.Duration) {
	w.Now = w.Now.Add(d)
	w.Daemon.Uptime += d.Seconds()
	for i := range w.Clients {
		c := &w.Clients[i]
		c.Age += d.Seconds()
		if c.DHCP.Waiting > 0 {
			c.DHCP.Waiting += d.Seconds()
		}
		if c.Queue.Stalled > 0 {
			c.Queue.Stalled += d.Seconds()
		}
	}
}

// look is what is wrong now, by code.
func (w *world) look(t *testing.T) map[string]status.Problem {
	t.Helper()
	found := map[string]status.Problem{}
	last := status.Error
	for _, p := range w.m.Problems(w.Status) {
		found[p.Code] = p
		check(t, p)
		order := []string{status.Error, status.Warning, status.Notice}
		assert.LessOrEqual(t, slices.Index(order, last), slices.Index(order, p.Severity), "the worst first")
		last = p.Severity
	}
	return found
}

// check is what holds for every problem.
func check(t *testing.T, p status.Problem) {
	t.Helper()
	assert.Contains(t, []string{status.Error, status.Warning, status.Notice}, p.Severity)
	assert.NotNil(t, p.Clients)
	assert.False(t, p.Since.IsZero(), p.Code)
	assert.True(t, strings.HasSuffix(p.Text, ".") || strings.HasSuffix(p.Text, ")"), p.Text)
	assert.NotContains(t, p.Text, "%!")
	assert.NotContains(t, p.Text, "\n")
	assert.NotEmpty(t, p.Fix, p.Code)
	for _, step := range p.Fix {
		assert.NotContains(t, step, "%!")
		assert.NotContains(t, step, "\n")
		if strings.Contains(step, "socket_vmnet2 capture") { // of this daemon
			assert.Regexp(t, ` \S*/\S*$`, step)
		}
	}
	if _, ok := produced[p.Code]; !ok {
		produced[p.Code] = p
	}
}

// produced are the first problems of each code that the tests have seen. docs/status.md shows them, or what show was given.
var produced, shown = map[string]status.Problem{}, map[string]status.Problem{}

// show makes p the example on the page.
func show(p status.Problem) { shown[p.Code] = p }

func TestNothingWrong(t *testing.T) {
	w := newWorld(t, 3)
	for range 4 {
		assert.Empty(t, w.look(t))
		w.after(7 * time.Second)
	}
	w.onVmnet()
	assert.Empty(t, w.look(t))
	assert.NotNil(t, w.m.Problems(w.Status))
	assert.Empty(t, w.log.String())
	var none *health.Monitor
	assert.NotNil(t, none.Problems(w.Status))
	none.Close()
}

func TestRules(t *testing.T) {
	tests := []struct {
		name     string
		vmnet    bool
		before   func(w *world) // below the limit
		problem  func(w *world)
		end      func(w *world)
		code     string
		severity string
		clients  []uint64
		text     []string // parts of it, where TestEveryCode does not compare the whole with the page
		fix      []string
		show     bool // it is the example on the page
	}{
		{
			name:   "no DHCP answer, embedded network",
			before: func(w *world) { w.Clients[1].DHCP = status.ClientDHCP{Discovers: 2, Waiting: 4.9} },
			problem: func(w *world) {
				w.Clients[1].DHCP = status.ClientDHCP{Discovers: 3, Waiting: 6}
			},
			end:  func(w *world) { w.Clients[1].DHCP = status.ClientDHCP{Discovers: 3, Offers: 1} },
			code: status.NoDHCPAnswer, severity: status.Error, clients: []uint64{2},
			text: []string{"Client 2 (52:54:00:00:00:02) asks for an address and has had no answer for 6 s", "3 DHCP requests, 0 answers", "the embedded network's gateway does not answer"},
			fix:  []string{"socket_vmnet2 capture -w dhcp.pcapng port 67 "},
		},
		{
			name: "no DHCP answer, vmnet", vmnet: true,
			before: func(w *world) { w.Clients[0].DHCP.Waiting = 4.9 },
			problem: func(w *world) {
				w.Clients[0].DHCP = status.ClientDHCP{Discovers: 9, Waiting: 70}
				w.Clients[2].DHCP = status.ClientDHCP{Discovers: 2, Waiting: 8}
			},
			show: true,
			end:  func(w *world) { w.Clients = w.Clients[1:2] },
			code: status.NoDHCPAnswer, severity: status.Error, clients: []uint64{1, 3},
		},
		{
			name: "no DHCP answer, bridged", vmnet: true,
			problem: func(w *world) {
				w.Network.Mode, w.Network.DHCP, w.Network.Interface = "bridged", nil, "en0"
				w.Network.Subnet, w.Network.Gateway = netip.Prefix{}, netip.Addr{}
				w.Clients[0].DHCP.Waiting = 12
			},
			end:  func(w *world) { w.Clients[0].DHCP.Waiting = 0 },
			code: status.NoDHCPAnswer, severity: status.Error, clients: []uint64{1},
			text: []string{"the network behind en0 has a DHCP server that does not answer"},
			fix:  []string{"Wi-Fi", "--vmnet-mode=shared"},
		},
		{
			name: "DHCP is off",
			problem: func(w *world) {
				w.Network.DHCP = nil
				w.Clients[0].DHCP = status.ClientDHCP{Discovers: 2, Waiting: 5}
			},
			end:  func(w *world) { w.Clients[0].DHCP.Waiting = 0 },
			code: status.DHCPDisabled, severity: status.Error, clients: []uint64{1},
		},
		{
			name: "sharing service busy", vmnet: true,
			problem: func(w *world) {
				w.Clients[0].State, w.Clients[0].Error = status.StateStarting, "vmnet_start_interface: [1009] VMNET_SHARING_SERVICE_BUSY: in use"
				w.Clients[0].DHCP.Waiting = 60 // not said twice
			},
			end:  func(w *world) { w.Clients[0] = client(1) },
			code: status.SharingBusy, severity: status.Error, clients: []uint64{1},
		},
		{
			name: "no interface", vmnet: true, show: true,
			problem: func(w *world) { w.Clients[1].State, w.Clients[1].Error = status.StateStarting, "[1001] VMNET_FAILURE" },
			end:     func(w *world) { w.Clients[1] = client(2) },
			code:    status.NoInterface, severity: status.Error, clients: []uint64{2},
		},
		{
			name: "died asleep", vmnet: true,
			before:  func(w *world) { w.Network.Vmnet.LastWake = &status.Wake{At: start, Slept: 7200} }, // and all lived
			problem: func(w *world) { w.Network.Vmnet.LastWake.Restarted = 2 },
			end:     func(w *world) { w.Network.Vmnet.LastWake.At = w.Now.Add(-2 * time.Hour) },
			code:    status.DiedAsleep, severity: status.Notice, text: []string{"slept for 2 h", "2 interfaces of vmnet had died and were started again"},
		},
		{
			name: "shared interface", vmnet: true,
			before: func(w *world) { w.Network.Vmnet.Shared = 2 }, // because it was asked for
			problem: func(w *world) {
				w.Network.Vmnet.Shared, w.Network.Vmnet.LastFailure = 2, "[1001] VMNET_FAILURE: no more"
				w.Clients[0].Interface.Kind, w.Clients[2].Interface.Kind = status.InterfaceShared, status.InterfaceShared
			},
			end:  func(w *world) { w.Network.Vmnet.Shared = 0 },
			code: status.SharedInterface, severity: status.Warning, clients: []uint64{1, 3},
		},
		{
			name:    "pool filling",
			before:  func(w *world) { w.Network.DHCP.Leased = 226 },
			problem: func(w *world) { w.Network.DHCP.Leased = 227 },
			end:     func(w *world) { w.Network.DHCP.Leased = 200 },
			code:    status.PoolExhausted, severity: status.Warning, text: []string{"227 of 252 addresses"}, fix: []string{"--vmnet-dhcp-end (now 192.168.105.253)"},
		},
		{
			name: "pool full", problem: func(w *world) { w.Network.DHCP.Leased = 252 },
			end:  func(w *world) { w.Network.DHCP.Leased = 1 },
			code: status.PoolExhausted, severity: status.Warning, text: []string{"All 252 addresses for guests are leased"}, fix: []string{"Stop guests"},
		},
		{
			name: "pool full, and a guest waits",
			problem: func(w *world) {
				w.Network.DHCP.Leased, w.Clients[0].DHCP = 252, status.ClientDHCP{Discovers: 2, Waiting: 5}
			},
			show: true,
			end:  func(w *world) { w.Network.DHCP.Leased, w.Clients[0].DHCP.Waiting = 1, 0 },
			code: status.PoolExhausted, severity: status.Error, clients: []uint64{1},
		},
		{
			name: "stalled", show: true,
			before: func(w *world) { w.Clients[0].Queue = status.Queue{Bytes: 9, Stalled: 4.9} },
			problem: func(w *world) {
				w.Clients[0].Queue = status.Queue{Bytes: 2000, Stalled: 125}
				w.Clients[0].Peer.PID = 77
			},
			end:  func(w *world) { w.Clients[0].Queue = status.Queue{} },
			code: status.StalledClient, severity: status.Warning, clients: []uint64{1},
		},
		{
			name: "network failed", show: true, problem: func(w *world) { w.Network.State, w.Network.Error = status.NetworkFailed, "no vmnet here" },
			end:  func(w *world) { w.Network.State = status.NetworkRunning },
			code: status.NetworkStart, severity: status.Error,
		},
		{
			name: "network starting", problem: func(w *world) { w.Network.State = status.NetworkStarting },
			end:  func(w *world) { w.Network.State = status.NetworkRunning },
			code: status.NetworkStart, severity: status.Notice, text: []string{"still starting"}, fix: []string{"Wait"},
		},
		{
			name: "nothing is kept", problem: func(w *world) { w.Daemon.StateFile = "" },
			end:  func(w *world) { w.Daemon.StateFile = "/state" },
			code: status.StateNotKept, severity: status.Notice,
		},
		{
			name: "the gateway has ended",
			problem: func(w *world) {
				w.Network.Usernet.Gateway = status.Gateway{State: "restarting", Error: "exit status 2", Restarts: 3}
			},
			end:  func(w *world) { w.Network.Usernet.Gateway = status.Gateway{State: "running", Restarts: 3} },
			code: status.GatewayDown, severity: status.Error,
		},
		{
			name: "forward failed",
			problem: func(w *world) {
				w.Network.Usernet.Forwards = []status.Forward{{Proto: "tcp", Host: "127.0.0.1:8080", Guest: "192.168.105.2:80", Error: "another program uses that port"}}
			},
			end:  func(w *world) { w.Network.Usernet.Forwards[0].Error = "" },
			code: status.ForwardFailed, severity: status.Error,
		},
		{
			name: "forward to no guest",
			before: func(w *world) {
				w.Network.Usernet.Forwards = []status.Forward{{Proto: "udp", Host: "127.0.0.1:53", Guest: "192.168.105.4:53"}}
			},
			problem: func(w *world) { w.Clients = w.Clients[:2] },
			end: func(w *world) {
				w.Network.DHCP.Leases = []status.Lease{{IP: netip.MustParseAddr("192.168.105.4"), MAC: "x"}}
			},
			code: status.ForwardedUnknown, severity: status.Notice,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, 3, func(o *health.Options) { o.DHCPOff = "--vmnet-disable-dhcp" })
			if tt.vmnet {
				w.onVmnet()
			}
			assert.NotContains(t, w.look(t), tt.code)
			w.after(time.Second)
			if tt.before != nil {
				tt.before(w)
				assert.NotContains(t, w.look(t), tt.code, "just below")
			}
			tt.problem(w)
			found := w.look(t)
			require.Contains(t, found, tt.code)
			p := found[tt.code]
			if tt.show {
				show(p)
			}
			assert.Equal(t, tt.severity, p.Severity)
			assert.Equal(t, append([]uint64{}, tt.clients...), p.Clients)
			for _, s := range tt.text {
				assert.Contains(t, p.Text, s)
			}
			for _, s := range tt.fix {
				assert.Contains(t, strings.Join(p.Fix, "\n"), s)
			}
			if tt.code == status.PoolExhausted || tt.code == status.SharingBusy {
				assert.NotContains(t, found, status.NoDHCPAnswer, "said once")
			}
			w.after(3 * time.Second)
			assert.Equal(t, p.Since, w.look(t)[tt.code].Since, "since is kept")
			w.after(time.Second)
			tt.end(w)
			assert.NotContains(t, w.look(t), tt.code, "over")
		})
	}
}

func TestOtherCausesOfNoAnswer(t *testing.T) {
	tests := []struct {
		name string
		make func(w *world)
		want string
	}{
		{"anti-spoof", func(w *world) { w.Clients[0].ToNet.Drops["drop_spoofed"] = 3 }, "--anti-spoof has dropped 3 of its frames"},
		{"one client's share", func(w *world) { w.Network.DHCP.Unanswered["port_full"] = 3 }, "16 addresses at a time, and 3 requests were above that"},
		{"its own storm", func(w *world) { w.Clients[0].Age, w.Clients[0].ToNet.Drops["drop_storm"] = 9, 3 }, "it sends more broadcasts than are passed on"},
		{"busy", func(w *world) {
			w.onVmnet()
			w.Network.Vmnet.Shared, w.Network.Vmnet.LastFailure = 1, "[1009] VMNET_SHARING_SERVICE_BUSY"
		}, "macOS's sharing service is busy"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.Clients[0].DHCP.Waiting = 9
			tt.make(w)
			assert.Contains(t, w.look(t)[status.NoDHCPAnswer].Text, tt.want)
		})
	}
	for _, state := range []string{status.NetworkStarting, status.NetworkFailed} {
		w := newWorld(t, 1)
		w.Clients[0].DHCP.Waiting, w.Network.State = 9, state
		assert.NotContains(t, w.look(t), status.NoDHCPAnswer, "the network is what is wrong")
	}
}

func TestOverlap(t *testing.T) {
	prefix := netip.MustParsePrefix
	used := []freenet.Conflict{{Name: "eth0", Prefix: prefix("10.0.0.5/8")}}
	var routes []freenet.Conflict
	w := newWorld(t, 0, func(o *health.Options) {
		o.Addresses = func() (*freenet.Table, error) { return freenet.NewTable(used, routes), nil }
	})
	assert.Empty(t, w.look(t))
	used = append(used, freenet.Conflict{Name: "wg0", Prefix: prefix("192.168.105.7/24")})
	w.after(time.Second)
	p := w.look(t)[status.SubnetOverlap]
	assert.Equal(t, status.Warning, p.Severity)
	assert.Contains(t, p.Text, "This network, 192.168.105.0/24, overlaps wg0 192.168.105.7/24: guests cannot reach what is there.")
	assert.Contains(t, p.Fix, "    --vmnet-gateway=192.168.107.1")
	assert.Equal(t, 1, w.said("level=WARN"))
	w.look(t)
	assert.Equal(t, 1, w.said("level=WARN"), "once")

	w.onVmnet()
	assert.Contains(t, w.look(t)[status.SubnetOverlap].Text, "frames for guests may go there")
	used[1] = freenet.Conflict{Name: "bridge100", Prefix: prefix("192.168.105.1/24")}
	w.after(time.Minute)
	assert.Empty(t, w.look(t), "vmnet's own interface")
	routes = []freenet.Conflict{{Name: "a route by utun4", Prefix: prefix("192.168.0.0/16")}}
	w.after(time.Minute)
	assert.Contains(t, w.look(t)[status.SubnetOverlap].Text, "a route by utun4 192.168.0.0/16")
	w.Network.Mode = "bridged"
	assert.Empty(t, w.look(t), "there the LAN is what it is on")
	w.Network.Mode, w.Network.Subnet = "shared", prefix("192.168.104.0/23")
	w.after(time.Minute)
	assert.Contains(t, strings.Join(w.look(t)[status.SubnetOverlap].Fix, "\n"), "--vmnet-mask=255.255.254.0")
}

func TestReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(path, []byte("one"), 0o700))
	w := newWorld(t, 0)
	w.Daemon.Program = path
	assert.Empty(t, w.look(t))
	require.NoError(t, os.Remove(path))
	w.after(31 * time.Second)
	assert.Contains(t, w.look(t)[status.ProgramReplaced].Text, "is gone")
	require.NoError(t, os.WriteFile(path, []byte("two."), 0o700))
	w.after(31 * time.Second)
	p := w.look(t)[status.ProgramReplaced]
	assert.Equal(t, status.Notice, p.Severity)
	assert.Contains(t, p.Text, "was replaced after this daemon (v0.0.0-test) had started")
	assert.Contains(t, p.Fix, "    socket_vmnet2 upgrade /run/vm.sock")
	w.Daemon.Socket = "/Users/a b/s"
	assert.Contains(t, w.look(t)[status.ProgramReplaced].Fix, "    socket_vmnet2 upgrade '/Users/a b/s'")
	p.Text = strings.ReplaceAll(p.Text, path, "/opt/socket_vmnet/bin/socket_vmnet2")
	show(p)
}
