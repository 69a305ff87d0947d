// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/passing/proto"
)

// frozen is how long processes stand still. The race detector finds no more in a minute.
func frozen() time.Duration {
	if slices.Contains(buildFlags, "-race") {
		return 8 * time.Second
	}
	return time.Minute
}

// guestEnv makes this program a guest: it says by which of a daemon's ways, on which socket, and with which address.
const guestEnv = "SOCKET_VMNET2_TEST_GUEST"

// TestAsGuest is a guest, in a process of its own that others may stop. It answers ARP and ping until its input ends.
func TestAsGuest(t *testing.T) {
	fields := strings.Fields(os.Getenv(guestEnv))
	if len(fields) == 0 {
		return // TestFrozenClients starts it
	}
	p := &process{sock: fields[1]}
	n, err := strconv.Atoi(fields[0])
	require.NoError(t, err)
	addr := netip.MustParsePrefix(fields[2])
	last := addr.Addr().As4()[3]
	g := plugIn(t, dialWay(t, p.ways()[n]), fakeguest.Options{MAC: net.HardwareAddr{2, 0, 0, 0, 0x1c, last}})
	g.SetAddr(addr, netip.MustParseAddr("192.168.105.1"))
	require.NoError(t, g.Announce())
	fmt.Println("ready")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	fmt.Println("link:", g.Err())
}

// A guestProcess is a guest that can be stopped.
type guestProcess struct {
	*exec.Cmd
	name string
	addr netip.Addr
	out  *output
}

func (p *process) guestProcess(t *testing.T, way int) *guestProcess {
	t.Helper()
	addr := netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168, 105, byte(100 + way)}), 24)
	c := exec.Command(os.Args[0], "-test.run=^TestAsGuest$", "-test.v")
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s %s", guestEnv, way, p.sock, addr))
	g := &guestProcess{Cmd: c, name: p.ways()[way].Name, addr: addr.Addr(), out: &output{}}
	c.Stdout, c.Stderr = g.out, g.out
	stdin, err := c.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = c.Process.Signal(syscall.SIGCONT)
		assert.NoError(t, c.Wait(), "%s: %s", g.name, g.out)
		assert.Contains(t, g.out.String(), "link: <nil>", g.name)
	})
	require.Eventually(t, func() bool { return strings.Contains(g.out.String(), "ready") }, patience, time.Millisecond, "%s: %s", g.name, g.out)
	return g
}

// answers waits until a guest answers another one's ping.
func answers(t *testing.T, g *fakeguest.Guest, to netip.Addr, name string) {
	t.Helper()
	require.Eventually(t, func() bool { _, err := g.Ping(to, 56); return err == nil }, 2*patience, time.Millisecond, name)
}

// TestFrozen: clients of every kind, and a daemon, that stand still for a minute live on, and nobody else notices. All of it
// happens at the same time.
func TestFrozen(t *testing.T) {
	if onSimulator() {
		return // it is about clients and the daemon, not about the network
	}
	t.Parallel()
	t.Run("clients", testFrozenClients)
	t.Run("daemon", testFrozenDaemon)
}

func testFrozenClients(t *testing.T) {
	t.Parallel()
	p := startOpen(t)
	s1, s2, s3 := over(t, p.stream()), over(t, p.stream()), over(t, p.attach(proto.Stream))
	_, err := s1.Configure()
	require.NoError(t, err)
	introduce(t, s1, s2, s3)
	var guests []*guestProcess
	macs := map[netip.Addr]net.HardwareAddr{}
	for way := range p.ways() {
		g := p.guestProcess(t, way)
		answers(t, s1, g.addr, g.name)
		macs[g.addr], err = s1.Resolve(g.addr)
		require.NoError(t, err)
		guests = append(guests, g)
	}
	gone := strings.Count(p.stderr.String(), "client gone")
	for _, g := range guests {
		require.NoError(t, g.Process.Signal(syscall.SIGSTOP))
	}
	memory := p.rss(t)
	for began := time.Now(); time.Since(began) < frozen(); time.Sleep(200 * time.Millisecond) {
		for _, mac := range macs {
			var batch [][]byte
			for range 50 {
				batch = append(batch, fakeguest.EthernetFrame(mac, s1.MAC(), fakeguest.TypeTest, make([]byte, 1500)))
			}
			require.NoError(t, s1.Send(batch...))
		}
		require.NoError(t, s1.Send(testFrame(fakeguest.Broadcast, s1.MAC(), "everybody")))
		runFlows(t, 50, newFlow("stream to stream", s1, s2), newFlow("stream to attached", s2, s3))
	}
	if memory > 0 {
		grown := p.rss(t) - memory
		t.Logf("%d KiB for %d clients that do not read", grown>>10, len(guests))
		assert.Less(t, grown, len(guests)*(2<<20)+64<<20, "no more than their queues")
	}
	assert.Equal(t, gone, strings.Count(p.stderr.String(), "client gone"), "they stay connected")
	for _, g := range guests {
		require.NoError(t, g.Process.Signal(syscall.SIGCONT))
	}
	for _, g := range guests {
		answers(t, s1, g.addr, g.name)
	}
	assert.Equal(t, gone, strings.Count(p.stderr.String(), "client gone"), "nor had they to come back")
	runFlows(t, 500, newFlow("stream to stream", s1, s2), newFlow("stream to attached", s2, s3))
}

// rss is how much memory the daemon has, in bytes, 0 where that is not known.
func (p *process) rss(t *testing.T) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.Process.Pid))
	require.NoError(t, err)
	pages, err := strconv.Atoi(strings.Fields(string(b))[1])
	require.NoError(t, err)
	return pages * os.Getpagesize()
}

// testFrozenDaemon: a daemon that slept serves the clients it had, who sent and waited meanwhile, with the leases they had.
func testFrozenDaemon(t *testing.T) {
	t.Parallel()
	kept := stateRoot(t)
	p := startOpen(t, "--state-dir="+kept)
	var guests []*fakeguest.Guest
	var leases []fakeguest.Lease
	for _, way := range p.ways() {
		g := over(t, way)
		l, err := g.Configure()
		require.NoError(t, err, way.Name)
		guests, leases = append(guests, g), append(leases, l)
	}
	introduce(t, guests[0], guests[1], guests[2])
	lines := strings.Count(p.stderr.String(), "\n")
	require.NoError(t, p.Process.Signal(syscall.SIGSTOP))
	t.Cleanup(func() { _ = p.Process.Signal(syscall.SIGCONT) })
	// A stream client fills its socket and waits, as a guest does whose program writes to the network.
	var waits sync.WaitGroup
	stuck := p.dial(t, 0xaa)
	require.NoError(t, stuck.SetDeadline(time.Now().Add(frozen()+2*patience)))
	waits.Go(func() {
		for i := range 2000 {
			_, err := stuck.Write(wire(guests[0].MAC()[5], 0xaa, fmt.Sprintf("%d %s", i, strings.Repeat("x", 1000))))
			if !assert.NoError(t, err) {
				return
			}
		}
	})
	time.Sleep(frozen())
	require.NoError(t, p.Process.Signal(syscall.SIGCONT))
	waits.Wait()
	stuck.send(0, "was stuck")
	for i, g := range guests {
		again, err := g.Renew(leases[i])
		require.NoError(t, err, p.ways()[i].Name)
		assert.Equal(t, leases[i].Addr, again.Addr)
		answers(t, g, guests[(i+1)%len(guests)].Addr().Addr(), p.ways()[i].Name)
		assert.NoError(t, g.Err(), p.ways()[i].Name)
	}
	runFlows(t, 500, newFlow("stream to path", guests[0], guests[1]), newFlow("path to path", guests[1], guests[2]))
	assert.Less(t, strings.Count(p.stderr.String(), "\n")-lines, 40, "no storm of what was due meanwhile: %s", p.stderr)
	code, took := p.signal(t, syscall.SIGTERM)
	assert.Zero(t, code)
	assert.Less(t, took, stopTime)
}
