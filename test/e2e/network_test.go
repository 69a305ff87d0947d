// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// network is a daemon with one guest of each kind on it.
type network struct {
	lab    *lab.Lab
	daemon *lab.Daemon
	guests []*lab.Guest
	hosts  []string // the host's addresses
	leases [2]lab.Lease
}

// TestNetwork shows what two virtual machines get from one daemon: the demo's steps and what they must not get.
func TestNetwork(t *testing.T) {
	n := newNetwork(t, daemonOld, "--vmnet-dhcp-end="+alias, "--vmnet-mask=255.255.255.0")
	n.guests = boot(
		t, n.lab,
		lab.GuestOptions{Name: "stream", MAC: "52:54:00:e2:e0:01", Netdev: lab.StreamNetdev(n.daemon.Socket, 0), QEMU: tools.NewQEMU},
		lab.GuestOptions{Name: "fd3", MAC: "52:54:00:e2:e0:02", Netdev: lab.FD3Netdev, Wrap: []string{client, n.daemon.Socket}},
	)
	n.hosts = []string{gateway, alias}
	t.Run("lease", n.testLease)
	if t.Failed() {
		return // nothing below can work
	}
	t.Run("ping", n.testPing)
	t.Run("names", n.testNames)
	t.Run("guests by name", n.testGuestNames)
	t.Run("host through the alias", n.testAlias)
	t.Run("way out", n.testOutside)
	t.Run("unicast is private", n.testPrivate)
	t.Run("renew and release", n.testRenew)
	t.Run("stop under load", n.testStop)
}

// TestNetworkOnVmnet has two guests of User Mode Linux on the vmnet back end, each with an interface of its own in the simulator, by
// each of the two ways to start one. What the host offers beyond DHCP and ping is macOS' own there.
func TestNetworkOnVmnet(t *testing.T) {
	for _, api := range []string{"network", "interface"} {
		t.Run(api, func(t *testing.T) {
			n := newNetwork(t, daemonSim, "--vmnet-dhcp-end="+alias, "--vmnet-mask=255.255.255.0", "--vmnet-api="+api)
			n.guests = boot(t, n.lab, umlGuest(n.daemon.Socket, "one", 1), umlGuest(n.daemon.Socket, "two", 2))
			n.hosts = []string{gateway}
			t.Run("lease", n.testLease)
			if t.Failed() {
				return
			}
			t.Run("ping", n.testPing)
			t.Run("unicast is private", n.testPrivate)
			t.Run("renew and release", n.testRenew)
			t.Run("stop under load", n.testStop)
		})
	}
}

// newNetwork starts program, which the caller boots the guests on.
func newNetwork(t *testing.T, program string, args ...string) *network {
	t.Helper()
	l := newLab(t)
	return &network{lab: l, daemon: startDaemon(t, l, program, l.Path("socket_vmnet"), append(args, "--pidfile="+l.Path("pid"))...)}
}

func (n *network) testLease(t *testing.T) {
	for i, g := range n.guests {
		lease := dhcp(t, g)
		assert.Equal(t, lab.Lease{
			IP: lease.IP, Bits: "24", Router: gateway, DNS: gateway, Server: gateway, Seconds: "3600",
		}, lease)
		ip := net.ParseIP(lease.IP).To4()
		require.NotNil(t, ip, lease.IP)
		assert.Equal(t, net.IPv4(192, 168, 105, 0).To4(), ip.Mask(net.CIDRMask(24, 32)))
		assert.NotContains(t, []byte{0, 1, 254, 255}, ip[3], "address of another")
		n.leases[i] = lease
	}
	assert.NotEqual(t, n.leases[0].IP, n.leases[1].IP)
}

func (n *network) testPing(t *testing.T) {
	for i, g := range n.guests {
		for _, to := range append(slices.Clone(n.hosts), n.leases[1-i].IP) {
			t.Logf("%s to %s: %s", g.Name, to, ping(t, g, to))
		}
	}
}

func (n *network) testNames(t *testing.T) {
	for name, want := range map[string]string{"host.internal": alias, "gateway.internal": gateway} {
		for _, g := range n.guests {
			got, err := g.Resolve(within(t, time.Minute), name)
			require.NoError(t, err)
			assert.Equal(t, want, got, "%s asks for %s", g.Name, name)
		}
	}
}

// testGuestNames: the guests tell DHCP what they are called, and find each other by that.
func (n *network) testGuestNames(t *testing.T) {
	names := []string{"web", "Db"}
	for i, g := range n.guests {
		run(t, g, "hostname "+names[i])
		assert.Equal(t, n.leases[i].IP, dhcp(t, g).IP)
	}
	for i, g := range n.guests {
		other, ip := strings.ToLower(names[1-i]), n.leases[1-i].IP
		got, err := g.Resolve(within(t, time.Minute), other+".vmnet.internal")
		require.NoError(t, err)
		assert.Equal(t, ip, got, "%s asks for %s", g.Name, other)
		ping(t, g, other) // by what DHCP says where to look up short names
		r := run(t, g, "nslookup "+ip)
		assert.Contains(t, r.Output, other+".vmnet.internal")
		r, err = g.Run(within(t, time.Minute), "nslookup unknown.vmnet.internal")
		require.NoError(t, err)
		assert.Contains(t, r.Output, "NXDOMAIN")
	}
}

func (n *network) testAlias(t *testing.T) {
	p := page(t, "127.0.0.1:0")
	for _, g := range n.guests {
		text, took, err := g.Fetch(within(t, time.Minute), fmt.Sprintf("http://host.internal:%d/%s", p.Port(), g.Name))
		require.NoError(t, err)
		assert.Equal(t, lab.PageText, text)
		t.Logf("%s: page in %s", g.Name, took)
	}
	assert.Equal(t, []string{"/stream", "/fd3"}, p.Paths())
}

func (n *network) testOutside(t *testing.T) {
	addrs, err := net.InterfaceAddrs()
	require.NoError(t, err)
	// One that is not a loopback one: for a guest it lies outside, and still nothing leaves the machine.
	i := slices.IndexFunc(addrs, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast()
	})
	require.GreaterOrEqual(t, i, 0, "this machine has no address but loopback, give it one, for example with: ip addr add 198.51.100.1/32 dev lo")
	outside := addrs[i].(*net.IPNet).IP
	p := page(t, net.JoinHostPort(outside.String(), "0"))
	text, _, err := n.guests[0].Fetch(within(t, time.Minute), fmt.Sprintf("http://%s/out", net.JoinHostPort(outside.String(), strconv.Itoa(p.Port()))))
	require.NoError(t, err)
	assert.Equal(t, lab.PageText, text)

	// The gateway is no way to the host's own services.
	_, _, err = n.guests[0].Fetch(within(t, time.Minute), fmt.Sprintf("http://%s:%d/gateway", gateway, p.Port()))
	require.Error(t, err)
	assert.Equal(t, []string{"/out"}, p.Paths())
}

// testPrivate: what one guest sends to the other does not reach a third client.
func (n *network) testPrivate(t *testing.T) {
	third := count(t, n.lab, n.daemon.Socket)
	sendsTo(t, n.guests[0], n.guests[1])
	assert.Zero(t, third.From(n.guests[0].MAC).Frames, "frames that were meant for another guest")
	sendsToCounter(t, n.guests[0], third)
	require.Empty(t, third.Faults())
}

// testRenew: udhcpc keeps a lease for a while, renews it and gives it back.
func (n *network) testRenew(t *testing.T) {
	g, lease := n.guests[1], n.leases[1]
	run(t, g, "rm -f /tmp/lease.log")
	require.NoError(t, g.Background(t.Context(), "udhcpc -f -R -i eth0 -s /lab/lease", "udhcpc"))
	waitLease := func(event string) map[string]string {
		t.Helper()
		var values map[string]string
		require.Eventually(t, func() bool {
			r, err := g.Run(t.Context(), "grep dhcp="+event+" /tmp/lease.log")
			values = r.Values()
			return err == nil && r.Code == 0
		}, patience, 100*time.Millisecond, "no %s", event)
		return values
	}
	assert.Equal(t, lease, lab.LeaseOf(waitLease("bound")))
	run(t, g, "kill -USR1 $(cat /tmp/udhcpc.pid)")
	assert.Equal(t, lease, lab.LeaseOf(waitLease("renew")))
	run(t, g, "rm -f /tmp/lease.log; kill -USR2 $(cat /tmp/udhcpc.pid)") // released
	waitLease("deconfig")
	_, err := g.EndBackground(t.Context(), "udhcpc")
	require.NoError(t, err)
	assert.Equal(t, lease, dhcp(t, g))
}

// testStop: a guest on fd 3, which does not come back, keeps running without its network.
func (n *network) testStop(t *testing.T) {
	counter := count(t, n.lab, n.daemon.Socket)
	for _, g := range n.guests {
		require.NoError(t, g.Background(t.Context(), "guest load eth0 "+countMAC+" 1400", "load"))
		require.Eventually(t, func() bool { return counter.From(g.MAC).Frames > 1000 }, patience, 20*time.Millisecond)
	}
	began := time.Now()
	t.Logf("stopped in %s", stop(t, n.daemon, syscall.SIGTERM))
	wholeEnd(t, counter, began)
	for _, f := range []string{n.daemon.Socket, n.lab.Path("pid")} {
		_, err := os.Lstat(f)
		assert.ErrorIs(t, err, os.ErrNotExist)
	}
	for _, g := range n.guests {
		run(t, g, "true")
	}
}
