// SPDX-License-Identifier: Apache-2.0

package vmnetsim

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func open(t *testing.T, dir string) *Control {
	t.Helper()
	c, err := Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

// value is a part of a switch: what it stands at, for how many calls, after how many.
func value(c *Control, s Switch, part int) int64 {
	return c.cell(c.switches[s] + 8*part).Load()
}

// TestCountsAndGauges: a switch that is flipped from outside applies, what is counted shows, and the dead have nothing.
func TestCountsAndGauges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := open(t, dir)
	assert.Zero(t, c.Gauges())
	p := startTool(t, "frames", dir)
	g := c.Gauges()
	assert.NotZero(t, g.Objects)
	g.Objects, g.Blocks = 0, 0
	assert.Equal(t, Gauges{Interfaces: 2, Networks: 1, Queues: 2, FramesIn: 2}, g)
	assert.EqualValues(t, 2, c.Calls()["vmnet_write"])
	c.Reset()
	assert.Zero(t, c.Calls()["vmnet_write"])
	assert.Zero(t, c.Gauges().FramesIn)
	assert.EqualValues(t, 2, c.Gauges().Interfaces, "which live on")
	p.kill()
	assert.Zero(t, c.Gauges().Interfaces)
}

func TestOwners(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := open(t, dir)
	p := startTool(t, "hold", dir)
	want := Owner{
		PID: p.cmd.Process.Pid, Mode: 1001, Subnet: netip.MustParsePrefix("192.168.105.0/24"),
		Start: netip.MustParseAddr("192.168.105.1"), End: netip.MustParseAddr("192.168.105.254"), MTU: 1500,
	}
	require.Len(t, c.Owners(), 1)
	got := c.Owners()[0]
	assert.Equal(t, 64, got.Prefix6.Bits())
	got.Prefix6 = netip.Prefix{}
	assert.Equal(t, want, got)

	// Another process may join with the same settings, and with no others.
	assert.Equal(t, "1000", runTool(t, "try_range", dir))
	assert.Equal(t, "1009", runTool(t, "try_other_end", dir))
	assert.Equal(t, "1001", runTool(t, "try_network", dir))
	p.end(t)
	for _, o := range c.Owners() {
		assert.NotZero(t, o.Freed)
	}
	assert.Equal(t, "1000", runTool(t, "try_network", dir))
}

func TestNetworkOwners(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := open(t, dir)
	p := startTool(t, "hold_network", dir)
	want := Owner{
		PID: p.cmd.Process.Pid, Network: true, Mode: 1001, Subnet: netip.MustParsePrefix("192.168.105.0/24"),
		Start: netip.MustParseAddr("192.168.105.1"), End: netip.MustParseAddr("192.168.105.254"), MTU: 1400,
		Flags: NoDHCP, Prefix6: netip.MustParsePrefix("fd12::/64"), External: "en0",
	}
	assert.Equal(t, []Owner{want}, c.Owners())
	guest := netip.MustParseAddr("192.168.105.7")
	assert.Equal(t, []Rule{
		{Addr: guest, MAC: net.HardwareAddr{2, 0, 0, 0, 0, 9}},
		{Proto: 6, ExternalPort: 2222, InternalPort: 22, Addr: guest},
	}, c.Rules())
	assert.Equal(t, "1001", runTool(t, "try_network", dir))
	assert.Equal(t, "1009", runTool(t, "try_range", dir))

	// The system keeps a killed process's network object, with its subnet, but not its rules.
	p.kill()
	assert.Equal(t, "1001", runTool(t, "try_network", dir))
	assert.Equal(t, "1009", runTool(t, "try_range", dir))
	assert.Empty(t, c.Rules())
}

// TestBusyAfterDeath is how a network stays busy for a while after its owner died.
func TestBusyAfterDeath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := open(t, dir)
	c.Set(BusyAfter, 60_000)
	startTool(t, "hold", dir).kill()
	assert.Equal(t, "1001", runTool(t, "try_network", dir))
	assert.Equal(t, "1009", runTool(t, "try_range", dir))
	require.Len(t, c.Owners(), 1)
	assert.WithinDuration(t, time.Now(), c.Owners()[0].Freed, time.Minute)
	c.Set(BusyAfter, 0)
	assert.Equal(t, "1000", runTool(t, "try_network", dir))
}

// TestLimitAcrossProcesses counts what other processes have, as long as they live.
func TestLimitAcrossProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := open(t, dir)
	c.Set(MaxInterfaces, 1)
	p := startTool(t, "hold", dir)
	assert.Equal(t, "1001", runTool(t, "try_range", dir))
	p.kill()
	assert.Equal(t, "1000", runTool(t, "try_range", dir))
}

// TestLeases: the host's leases outlive the process, and are where and as macOS's bootpd writes them.
func TestLeases(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := open(t, dir)
	for range 2 {
		assert.Equal(t, "192.168.105.2", runTool(t, "lease", dir))
		b, err := os.ReadFile(filepath.Join(dir, "dhcpd_leases"))
		require.NoError(t, err)
		assert.Regexp(t, `^\{\n\tname=guest\n\tip_address=192\.168\.105\.2\n\thw_address=1,2:0:0:0:0:9\n\tidentifier=1,2:0:0:0:0:9\n\tlease=0x[0-9a-f]+\n\}\n$`, string(b))
	}
	c.Reset()
	assert.EqualValues(t, 1, value(c, Host, 0), "as the program began")
}
