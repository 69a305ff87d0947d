// SPDX-License-Identifier: Apache-2.0

package vmnetsim

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/socket-vmnet2/socket_vmnet2/test/cbuild"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every run of a C program.
const patience = 5 * time.Minute

// cases builds the C tests, with the simulator in the same program so that a sanitizer sees both.
func cases(t *testing.T, flags ...string) string {
	t.Helper()
	Library(t, Full) // skips without gcc
	more, err := cbuild.CTests()
	require.NoError(t, err)
	require.NotEmpty(t, more)
	p, err := compile(t.Context(), "ctest", append([]string{"-O1"}, flags...), more)
	require.NoError(t, err)
	return p
}

// addresses are the sanitizers of memory and of what C leaves undefined, with a leak check at the end.
func addresses(t *testing.T) string {
	return cases(t, "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
}

func runCases(t *testing.T, program string) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := cbuild.Command(ctx, program).CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Greater(t, bytes.Count(out, []byte("ok ")), 25, "%s", out)
}

// TestRulesAndSwitches runs each C case: deliberately wrong callers are refused, each switch shows, and in the end
// nothing is left.
func TestRulesAndSwitches(t *testing.T) {
	t.Parallel()
	runCases(t, addresses(t))
}

func TestThreads(t *testing.T) {
	t.Parallel()
	runCases(t, cases(t, "-fsanitize=thread"))
}

// TestOldLimits runs the cases without the newer parts, where a call takes 200 packets.
func TestOldLimits(t *testing.T) {
	t.Parallel()
	runCases(t, cases(t, "-O0", "-DNO_MACOS15"))
}

// TestAborts runs what macOS would crash for, one process each.
func TestAborts(t *testing.T) {
	t.Parallel()
	program := addresses(t)
	list, err := cbuild.Command(t.Context(), program, "-l").Output()
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(list)), "\n")
	require.Greater(t, len(lines), 10)
	for _, l := range lines {
		name, message, _ := strings.Cut(l, "\t")
		t.Run(name, func(t *testing.T) {
			out, err := cbuild.Command(t.Context(), program, name).CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, "%s", out)
			assert.Contains(t, string(out), "vmnetsim: ")
			assert.Contains(t, string(out), message)
			assert.NotContains(t, string(out), "Sanitizer")
		})
	}
}

// A tool is a C test program that works on a control file until its input ends.
type tool struct {
	cmd   *exec.Cmd
	input *os.File
}

func startTool(t *testing.T, name, dir string) *tool {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	cmd := cbuild.Command(t.Context(), addresses(t), name, dir)
	cmd.Stdin = r
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	require.NoError(t, r.Close())
	b := make([]byte, 64)
	n, err := out.Read(b)
	require.NoError(t, err)
	require.Equal(t, "ready\n", string(b[:n]))
	tl := &tool{cmd, w}
	t.Cleanup(tl.kill)
	return tl
}

func (tl *tool) kill() {
	_ = tl.cmd.Process.Signal(syscall.SIGKILL) // first: at the end of its input the tool would end in order
	_ = tl.input.Close()
	_ = tl.cmd.Wait()
}

// runTool returns what a tool prints.
func runTool(t *testing.T, name, dir string) string {
	t.Helper()
	out, err := cbuild.Command(t.Context(), addresses(t), name, dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

func open(t *testing.T) (c *Control, dir string) {
	t.Helper()
	dir = t.TempDir()
	c, err := Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c, dir
}

// TestCountsAndGauges: a switch that is flipped from outside applies, what is counted shows, and the dead have nothing.
func TestCountsAndGauges(t *testing.T) {
	t.Parallel()
	c, dir := open(t)
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
	c, dir := open(t)
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
	require.NoError(t, p.input.Close()) // it finishes
	require.NoError(t, p.cmd.Wait())
	for _, o := range c.Owners() {
		assert.NotZero(t, o.Freed)
	}
	assert.Equal(t, "1000", runTool(t, "try_network", dir))
}

func TestNetworkOwners(t *testing.T) {
	t.Parallel()
	c, dir := open(t)
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
	c, dir := open(t)
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
	c, dir := open(t)
	c.Set(MaxInterfaces, 1)
	p := startTool(t, "hold", dir)
	assert.Equal(t, "1001", runTool(t, "try_range", dir))
	p.kill()
	assert.Equal(t, "1000", runTool(t, "try_range", dir))
}

// TestLeases: the host's leases outlive the process, and are where and as macOS's bootpd writes them.
func TestLeases(t *testing.T) {
	t.Parallel()
	c, dir := open(t)
	for range 2 {
		assert.Equal(t, "192.168.105.2", runTool(t, "lease", dir))
		b, err := os.ReadFile(filepath.Join(dir, "dhcpd_leases"))
		require.NoError(t, err)
		assert.Regexp(t, `^\{\n\tname=guest\n\tip_address=192\.168\.105\.2\n\thw_address=1,2:0:0:0:0:9\n\tidentifier=1,2:0:0:0:0:9\n\tlease=0x[0-9a-f]+\n\}\n$`, string(b))
	}
	c.Reset()
	assert.EqualValues(t, 1, c.cell(c.switches[Host]).Load(), "as the program began")
}
