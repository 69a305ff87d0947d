// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/state"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

func TestMain(m *testing.M) {
	if code, ran := gateway.Main("test"); ran {
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

const patience = 30 * time.Second

var (
	gatewayIP = netip.MustParseAddr("192.168.105.1")
	guestIP   = netip.MustParseAddr("192.168.105.77")
)

// process starts gateways as processes: this test.
func process(end *os.File) (*os.Process, error) {
	return gateway.Program{Path: os.Args[0], Socket: "/test", UID: -1, GID: -1}.Start(end)
}

// start makes a network, with a gateway unless o says otherwise.
func start(t testing.TB, o Options) *Network {
	t.Helper()
	if o.Mode == "" {
		o.Mode = network.ModeShared
	}
	if o.Start == nil {
		o.Start = process
	}
	n, err := New(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	return n
}

// log is a logger and what it wrote.
func log() (*slog.Logger, *vnettest.Log) {
	var b vnettest.Log
	return slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug})), &b
}

// startUp is start, and waits until the gateway runs.
func startUp(t testing.TB, o Options) *Network {
	t.Helper()
	n := start(t, o)
	require.Eventually(t, func() bool { _, u := n.Status(); return u.Gateway.State == running }, patience, time.Millisecond)
	return n
}

func TestStartParameters(t *testing.T) {
	logger, out := log()
	o := Options{Log: logger}
	o.Gateway, o.PrefixLen, o.DHCPEnd = netip.MustParseAddr("10.1.0.1"), 20, netip.MustParseAddr("10.1.7.9")
	n := start(t, o)
	var got []string
	for line := range strings.Lines(out.String()) {
		_, kv, ok := strings.Cut(line, `level=INFO msg="interface parameter" key=`)
		require.True(t, ok, line)
		got = append(got, strings.TrimSpace(kv))
	}
	assert.Equal(t, []string{
		"vmnet_mac_address value=" + n.GatewayMAC().String(),
		"vmnet_mtu value=1500",
		"vmnet_max_packet_size value=1514",
		"vmnet_interface_id value=" + network.IDText(n.plan.ID),
		"vmnet_start_address value=10.1.0.1",
		"vmnet_end_address value=10.1.7.9",
		"vmnet_subnet_mask value=255.255.240.0",
	}, got)
	assert.Equal(t, network.Info{
		Backend: "usernet", Mode: network.ModeShared, Subnet: netip.MustParsePrefix("10.1.0.0/20"), Gateway: netip.MustParseAddr("10.1.0.1"),
		DHCPStart: netip.MustParseAddr("10.1.0.2"), DHCPEnd: netip.MustParseAddr("10.1.7.9"), MTU: 1500, MaxFrame: 69632,
	}, n.Info())
	assert.Equal(t, "10.1.15.254", n.Alias().String())

	o = Options{Log: logger}
	o.Gateway, o.DHCPEnd = netip.MustParseAddr("10.0.0.253"), netip.MustParseAddr("10.0.0.255")
	start(t, o)
	assert.Contains(t, out.String(), "no guest will get an address by DHCP")
	_, err := New(Options{Config: gateway.Config{Mode: network.ModeBridged}})
	require.ErrorIs(t, err, gateway.ErrBridged)
}

// TestRestart: guests keep their addresses across a restart of the daemon.
func TestRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	life := func(use func(n *Network)) {
		f := state.Open(state.Options{Dir: dir, Socket: "/run/s"})
		n := start(t, Options{Leases: f})
		use(n)
		require.NoError(t, n.Close())
		require.NoError(t, f.Close())
	}
	configure := func(n *Network, mac byte, want string) {
		l, err := vnettest.Attach(t, n, fakeguest.Options{MAC: net.HardwareAddr{0x52, 0x54, 0, 0, 0, mac}}).Configure()
		require.NoError(t, err)
		assert.Equal(t, want, l.Addr.String())
	}
	life(func(n *Network) {
		configure(n, 1, "192.168.105.2/24")
		configure(n, 2, "192.168.105.3/24")
	})
	life(func(n *Network) {
		configure(n, 3, "192.168.105.4/24")
		configure(n, 2, "192.168.105.3/24")
		g := vnettest.Attach(t, n, fakeguest.Options{MAC: net.HardwareAddr{0x52, 0x54, 0, 0, 0, 1}})
		l, err := g.Reboot(netip.MustParseAddr("192.168.105.2"))
		require.NoError(t, err)
		_, err = g.Renew(l)
		require.NoError(t, err)
	})
}

// forwardTo forwards a free port of the host.
func forwardTo(t testing.TB, proto string, guestPort uint16) network.Forward {
	return network.Forward{Proto: proto, HostPort: vnettest.FreePort(t), Guest: netip.AddrPortFrom(guestIP, guestPort)}
}

// occupy has another program listen on the host's port of f.
func occupy(t testing.TB, f network.Forward) io.Closer {
	t.Helper()
	at := fmt.Sprintf("0.0.0.0:%d", f.HostPort)
	var c io.Closer
	var err error
	if f.Proto == "tcp" {
		c, err = net.Listen("tcp4", at)
	} else {
		c, err = net.ListenPacket("udp4", at)
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestForwardPortInUse: the network does not start, says why, and leaves no port open.
func TestForwardPortInUse(t *testing.T) {
	for _, proto := range []string{"tcp", "udp"} {
		first, taken := forwardTo(t, "tcp", 1), forwardTo(t, proto, 80)
		occupy(t, taken)
		_, err := New(Options{Config: gateway.Config{Mode: network.ModeShared, Forwards: []network.Forward{first, taken}}})
		require.ErrorIs(t, err, syscall.EADDRINUSE)
		assert.Contains(t, err.Error(), fmt.Sprintf("--vmnet-forward=%s: another program uses that port", taken))
		occupy(t, first) // it is free again
	}
}

// reaches tells whether the gateway takes connections to the host's port of f.
func reaches(t *testing.T, n *Network, f network.Forward) bool {
	_, u := n.Status()
	before := u.TCPFlows
	c, err := net.DialTimeout("tcp4", fmt.Sprintf("127.0.0.1:%d", f.HostPort), patience)
	require.NoError(t, err)
	defer c.Close()
	return assert.Eventually(t, func() bool {
		n.gw.ask() // as at the next tick
		_, u = n.Status()
		return u.TCPFlows > before
	}, patience, 10*time.Millisecond)
}

// TestLateForwards: a network that is opened again starts without the ports that others have, says so, and takes them once it can.
func TestLateForwards(t *testing.T) {
	tcp, udp, never := forwardTo(t, "tcp", 80), forwardTo(t, "udp", 80), forwardTo(t, "tcp", 81)
	others := []io.Closer{occupy(t, tcp), occupy(t, udp)}
	occupy(t, never)
	o := Options{LateForwards: true, tune: tuning{tick: 20 * time.Millisecond}}
	o.Forwards = []network.Forward{tcp, udp, never}
	n := start(t, o)
	_, u := n.Status()
	for _, f := range u.Forwards {
		assert.Contains(t, f.Error, "another program uses that port of this host")
	}
	for i := range others {
		_ = others[i].Close()
		require.Eventually(t, func() bool { _, u := n.Status(); return u.Forwards[i].Error == "" }, patience, 10*time.Millisecond)
	}
	reaches(t, n, tcp)
}

func TestConformance(t *testing.T) {
	vnettest.TestNetwork(t, func(t *testing.T) network.Network {
		n, err := New(Options{Config: gateway.Config{Mode: network.ModeShared}, Start: process})
		require.NoError(t, err)
		return n
	})
}

// TestStatus is of a network with a lease and a forward.
func TestStatus(t *testing.T) {
	f := network.Forward{Proto: "tcp", HostPort: vnettest.FreePort(t), Guest: netip.MustParseAddrPort("192.168.105.2:80")}
	o, open := Options{}, f
	open.HostIP, open.HostPort = netip.IPv4Unspecified(), vnettest.FreePort(t)
	o.DHCPEnd, o.Gateway, o.Forwards = netip.MustParseAddr("192.168.105.9"), gatewayIP, []network.Forward{f, open}
	n := start(t, o)
	g := vnettest.Attach(t, n, fakeguest.Options{Name: "Web"})
	_, err := g.Configure()
	require.NoError(t, err)
	_, err = g.Ping(gatewayIP, 1)
	require.NoError(t, err)
	require.Eventually(t, func() bool { d, _ := n.Status(); return d.Leased == 1 }, patience, time.Millisecond)

	d, u := n.Status()
	require.Len(t, d.Leases, 1)
	l := d.Leases[0]
	assert.WithinDuration(t, time.Now().Add(time.Hour), l.Expires, time.Minute)
	assert.Equal(t, "192.168.105.2 Web web.vmnet.internal "+g.MAC().String(), fmt.Sprint(l.IP, " ", l.Hostname, " ", l.Name, " ", l.MAC))
	assert.Equal(t, "192.168.105.2", d.Start.String())
	assert.Equal(t, [2]int{8, 1}, [2]int{d.Size, d.Leased})
	assert.Equal(t, map[string]uint64{"malformed": 0, "foreign": 0, "port_full": 0, "pool_full": 0}, d.Unanswered)
	require.Len(t, u.Forwards, 2)
	assert.Equal(t, fmt.Sprintf("0.0.0.0:%d", open.HostPort), u.Forwards[1].Host)
	assert.Equal(t, fmt.Sprintf("tcp 127.0.0.1:%d 192.168.105.2:80 ", f.HostPort), fmt.Sprint(u.Forwards[0].Proto, " ", u.Forwards[0].Host, " ", u.Forwards[0].Guest, " ", u.Forwards[0].Error))
	assert.Len(t, u.Drops, 5)
	w := u.Gateway
	assert.Equal(t, running, w.State)
	assert.NotEqual(t, os.Getpid(), w.PID)
	assert.Equal(t, fmt.Sprint(os.Geteuid(), " test 2"), fmt.Sprint(w.UID, " ", w.Version, " ", w.Protocol))

	require.NoError(t, n.Close())
	_, _ = n.Status()
	assert.Error(t, syscall.Kill(w.PID, 0), "its process has gone, and was reaped")

	n = start(t, Options{Config: gateway.Config{DisableDHCP: true}})
	d, u = n.Status()
	assert.Nil(t, d)
	b, err := json.Marshal(u)
	require.NoError(t, err)
	assert.NotContains(t, string(b), "null")
}

// TestPortIdentity: a port tells its identity, and gives it back.
func TestPortIdentity(t *testing.T) {
	n := start(t, Options{})
	for range 2 {
		p, err := n.Attach(t.Context(), network.PortOptions{InterfaceID: network.ID{1}}, discard{})
		require.NoError(t, err)
		assert.Equal(t, "01000000-0000-0000-0000-000000000000", p.Info().InterfaceID)
		assert.Equal(t, network.MACOf(network.ID{1}), p.Info().MAC)
		_, err = n.Attach(t.Context(), network.PortOptions{InterfaceID: n.plan.ID}, discard{})
		require.ErrorIs(t, err, network.ErrIDInUse, "the gateway's")
		require.NoError(t, p.Close())
	}
}

// discard is a sink whose frames are not looked at.
type discard struct{}

func (discard) Deliver(frame.Batch) {}
func (discard) MaxFrame() int       { return frame.MaxLen }
