// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway"
	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway/dhcp"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// quick has what a supervisor does happen soon.
var quick = tuning{tick: 20 * time.Millisecond, minDelay: time.Millisecond}

// TestGatewayIsReplaced: a process that is killed, and one that hangs, makes room for another with the leases and the forwards of the
// one before; guests keep their ports.
func TestGatewayIsReplaced(t *testing.T) {
	f := forwardTo(t, "tcp", 80)
	o := Options{tune: tuning{tick: 200 * time.Millisecond}}
	o.Forwards = []network.Forward{f}
	n := start(t, o)
	g := vnettest.Attach(t, n, fakeguest.Options{Name: "web"})
	lease, err := g.Configure()
	require.NoError(t, err)
	for i, s := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGKILL} {
		_, u := n.Status()
		was := u.Gateway
		require.NoError(t, syscall.Kill(was.PID, s))
		require.Eventually(t, func() bool { _, u = n.Status(); return u.Gateway.State == running && u.Gateway.PID != was.PID }, patience, 10*time.Millisecond)
		assert.EqualValues(t, i+1, u.Gateway.Restarts)
		require.Error(t, syscall.Kill(was.PID, 0), "the one before was reaped")
		again, err := g.Reboot(lease.Addr.Addr())
		require.NoError(t, err)
		assert.Equal(t, lease.Addr, again.Addr)
		d, _ := n.Status()
		assert.Equal(t, "web.vmnet.internal", d.Leases[0].Name)
		reaches(t, n, f)
	}
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		_, u := n.Status()
		require.NoError(t, syscall.Kill(u.Gateway.PID, s))
	}
	_, err = g.Ping(gatewayIP, 1)
	require.NoError(t, err)
	_, u := n.Status()
	assert.EqualValues(t, 3, u.Gateway.Restarts, "it heeds no signal but KILL")
}

// TestNoProgram: a gateway that cannot be started is tried again and again, less and less often, and the status says why. Guests have
// each other.
func TestNoProgram(t *testing.T) {
	logger, out := log()
	o := Options{Log: logger, Start: gateway.Program{Path: "/nonexistent/program"}.Start, tune: quick}
	n := start(t, o)
	require.Eventually(t, func() bool { // the log's line may follow the count
		_, u := n.Status()
		return u.Gateway.Restarts > 3 && strings.Count(out.String(), "delay=") > 3
	}, patience, time.Millisecond)
	_, u := n.Status()
	assert.Equal(t, restarting, u.Gateway.State)
	assert.Contains(t, u.Gateway.Error, "/nonexistent/program: no such file or directory")
	var delays []string
	for line := range strings.Lines(out.String()) {
		if _, d, ok := strings.Cut(strings.TrimSpace(line), "delay="); ok {
			delays = append(delays, d)
		}
	}
	assert.Equal(t, []string{"0s", "1ms", "2ms", "4ms"}, delays[:4])
	a, b := vnettest.Attach(t, n, fakeguest.Options{}), vnettest.Attach(t, n, fakeguest.Options{})
	a.SetAddr(netip.MustParsePrefix("192.168.105.10/24"), gatewayIP)
	b.SetAddr(netip.MustParsePrefix("192.168.105.11/24"), gatewayIP)
	_, err := a.Ping(b.Addr().Addr(), 1)
	require.NoError(t, err)
}

// A liar is a gateway that says what a test wants, once.
type liar struct {
	t    *testing.T
	mu   sync.Mutex
	says []byte // after hello; then honest gateways follow
	told int

	heard atomic.Int64 // bytes
}

// Write implements io.Writer.
func (x *liar) Write(b []byte) (int, error) { x.heard.Add(int64(len(b))); return len(b), nil }

func (x *liar) start(end *os.File) (*os.Process, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.told++; x.told > 1 {
		return process(end)
	}
	says := x.says
	go func() {
		defer end.Close()
		_, _ = end.Write(says)
		_, _ = io.Copy(x, end)
	}()
	c := exec.Command("sleep", "1000") // until it is killed
	err := c.Start()
	return c.Process, err
}

// TestLies: a gateway that says what cannot be is replaced, and nothing of it counts.
func TestLies(t *testing.T) {
	hello := gateway.AppendMessage(nil, gateway.KindHello, gateway.Hello{Protocol: gateway.Protocol})
	after := func(kind byte, body any) []byte { return gateway.AppendMessage(bytes.Clone(hello), kind, body) }
	mac := net.HardwareAddr{0x52, 0x54, 0, 0, 0, 1}
	lease := func(change func(*dhcp.Lease)) []byte {
		l := dhcp.Lease{MAC: mac, IP: netip.MustParseAddr("192.168.105.9"), Left: time.Minute}
		change(&l)
		return after(gateway.KindLeased, l)
	}
	broadcast := make([]byte, 60)
	copy(broadcast, fakeguest.Broadcast)
	for name, says := range map[string][]byte{
		"garbage":                    []byte("GET / HTTP/1.1\r\n\r\n"),
		"a message before hello":     gateway.AppendMessage(nil, gateway.KindLeased, dhcp.Lease{}),
		"another protocol":           gateway.AppendMessage(nil, gateway.KindHello, gateway.Hello{Protocol: 99}),
		"hello twice":                after(gateway.KindHello, gateway.Hello{Protocol: gateway.Protocol}),
		"an unknown message":         after(200, nil),
		"no JSON":                    append(bytes.Clone(hello), 0x80, 0, 0, 2, gateway.KindLeased, 'x'),
		"a message without an end":   binary.BigEndian.AppendUint32(bytes.Clone(hello), 1<<31|gateway.MaxMessage+1),
		"a frame too long":           binary.BigEndian.AppendUint32(bytes.Clone(hello), frame.MaxLen+1),
		"a frame too short":          append(bytes.Clone(hello), 0, 0, 0, 1, 0),
		"a frame in a guest's name":  frame.Append(bytes.Clone(hello), broadcast),
		"an answer to no question":   after(gateway.KindAnswer, gateway.Answer{Ask: 77}),
		"a lease outside":            lease(func(l *dhcp.Lease) { l.IP = netip.MustParseAddr("10.0.0.1") }),
		"a lease of the gateway's":   lease(func(l *dhcp.Lease) { l.IP = gatewayIP }),
		"a lease of the alias":       lease(func(l *dhcp.Lease) { l.IP = netip.MustParseAddr("192.168.105.254") }),
		"a lease reserved for other": lease(func(l *dhcp.Lease) { l.IP = netip.MustParseAddr("192.168.105.50") }),
		"a lease of no address":      lease(func(l *dhcp.Lease) { l.IP = netip.Addr{} }),
		"a lease for a group":        lease(func(l *dhcp.Lease) { l.MAC = fakeguest.Broadcast }),
		"a lease for nothing":        lease(func(l *dhcp.Lease) { l.MAC = nil }),
		"a lease for ever":           lease(func(l *dhcp.Lease) { l.Left = 2 * time.Hour }),
		"a lease for a bad name":     lease(func(l *dhcp.Lease) { l.Hostname = "a b" }),
		"a lease for a bad DNS name": lease(func(l *dhcp.Lease) { l.Name = "UP" }),
		"nothing, for ever":          {},
	} {
		t.Run(name, func(t *testing.T) {
			x := &liar{t: t, says: says}
			o := Options{Start: x.start, tune: quick}
			o.Reservations = []network.Reservation{{MAC: net.HardwareAddr{2, 0, 0, 0, 0, 9}, Addr: netip.MustParseAddr("192.168.105.50")}}
			n := start(t, o)
			if name == "nothing, for ever" {
				return // Close ends it
			}
			require.Eventually(t, func() bool { _, u := n.Status(); return u.Gateway.State == running && u.Gateway.Restarts == 1 }, patience, time.Millisecond)
			d, _ := n.Status()
			assert.Empty(t, d.Leases)
			_, err := vnettest.Attach(t, n, fakeguest.Options{}).Configure()
			require.NoError(t, err)
		})
	}
}

// TestWindow: a gateway that handles nothing is given a window and no more, also of a flood.
func TestWindow(t *testing.T) {
	x := &liar{t: t, says: gateway.AppendMessage(nil, gateway.KindHello, gateway.Hello{Protocol: gateway.Protocol})}
	n := startUp(t, Options{Start: x.start})
	g := vnettest.Attach(t, n, fakeguest.Options{})
	time.Sleep(10 * time.Millisecond)
	before, flood := x.heard.Load(), fakeguest.EthernetFrame(n.plan.MAC, g.MAC(), fakeguest.TypeIPv4, make([]byte, 46))
	for range 1000 {
		require.NoError(t, g.Send(flood, flood))
	}
	require.Eventually(t, func() bool { return x.heard.Load() >= before+window*64 }, patience, time.Millisecond)
	time.Sleep(10 * time.Millisecond)
	assert.Less(t, x.heard.Load(), before+2*window*64)
}

// TestHandled: what a gateway has handled before the call that gave it has returned is no longer ahead of it.
func TestHandled(t *testing.T) {
	n := startUp(t, Options{})
	f := fakeguest.EthernetFrame(n.plan.MAC, net.HardwareAddr{2, 0, 0, 0, 0, 1}, fakeguest.TypeIPv4, make([]byte, 1500))
	many := frame.NewBatch(bytes.Repeat(frame.Append(nil, f), window), window)
	for range 300 {
		n.gw.DeliverFrom(uint64(1), many)
	}
	l := n.gw.life.Load()
	require.Eventually(t, func() bool { return n.gw.queue.empty() && l.ahead.Load() < gateway.HandledFrames }, patience, time.Millisecond)
}

// TestLogLines: what a gateway logs is one line and not too many of them.
func TestLogLines(t *testing.T) {
	says := gateway.AppendMessage(nil, gateway.KindHello, gateway.Hello{Protocol: gateway.Protocol, Error: "become user 5: no"})
	for range 2 * maxLines {
		says = gateway.AppendMessage(says, gateway.KindLog, gateway.LogLine{Level: 4, Message: "a\n\x1b[31mb", Args: []string{"k", "v\n", "odd"}})
	}
	x := &liar{t: t, says: says}
	logger, out := log()
	n := start(t, Options{Start: x.start, Log: logger, tune: tuning{tick: time.Minute}})
	require.Eventually(t, func() bool { return strings.Count(out.String(), "level=WARN") >= maxLines }, patience, time.Millisecond)
	require.NoError(t, n.Close())
	assert.Equal(t, maxLines+1, strings.Count(out.String(), "level=WARN"))
	assert.Contains(t, out.String(), `msg="a ?[31mb" k="v "`)
	assert.Contains(t, out.String(), "keeps the daemon's rights")
}

// TestQueueIsFair: a flooding client fills its own share of the queue only, and the others' frames are next in turn.
func TestQueueIsFair(t *testing.T) {
	q := newQueue()
	one := frame.NewBatch(frame.Append(nil, make([]byte, frame.MaxEthernetLen)), 1)
	sent, full := 0, 0
	for range 20 * queueTotal / len(one.Bytes()) {
		full += q.put(1, one)
		sent++
	}
	assert.LessOrEqual(t, q.bytes, queuePerSession)
	assert.Equal(t, sent-q.bytes/len(one.Bytes()), full)
	for src := range uint64(20) { // as many as the total has room for, and more
		for range queuePerSession / len(one.Bytes()) {
			q.put(2+src, one)
		}
	}
	assert.LessOrEqual(t, q.bytes, queueTotal+20*queueShare)
	q.put(99, one)
	q.message(99, gateway.KindGone, uint64(99))
	q.message(100, gateway.KindGone, uint64(100)) // had nothing to send
	seen := map[uint64]string{}
	for range 23 {
		b, n := q.next(nil)
		assert.LessOrEqual(t, n, turnFrames)
		seen[binary.BigEndian.Uint64(b[5:])] = string(b) // behind KindSession
		q.put(1, one)                                    // goes on, and has its turn after the others
	}
	assert.Len(t, seen, 23, "each had a turn")
	gone := string(gateway.AppendMessage(nil, gateway.KindGone, uint64(99)))
	assert.Equal(t, string(gateway.AppendSession(nil, 99))+string(one.Bytes())+gone, seen[99])
	assert.Len(t, seen[100], len(gateway.AppendSession(nil, 100))+len(gone)+1)
	for b, _ := q.next(nil); len(b) > 0; b, _ = q.next(b[:0]) {
	}
	assert.Zero(t, q.bytes)
	assert.True(t, q.empty())
}

// TestLeaseTable: one lease for each client and each address, as many as the state file takes, and the wall clock changes nothing
// while the daemon runs.
func TestLeaseTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in which no time passes
		wall := time.Now()
		o := Options{tune: tuning{wall: func() time.Time { return wall }}}
		o.Mode, o.Gateway, o.PrefixLen, o.DHCPEnd = network.ModeShared, netip.MustParseAddr("10.1.0.1"), 16, netip.MustParseAddr("10.1.255.200")
		plan, err := o.Plan()
		require.NoError(t, err)
		var l leases
		l.init(&o, &plan)
		leaseOf := func(client, ip int) dhcp.Lease {
			mac := net.HardwareAddr{2, 0, 0, 0, byte(client >> 8), byte(client)}
			return dhcp.Lease{MAC: mac, IP: netip.AddrFrom4([4]byte{10, 1, byte(ip >> 8), byte(ip)}), Left: time.Minute + time.Duration(client)*time.Millisecond}
		}
		for _, given := range [][2]int{{1, 10}, {2, 11}, {2, 12}, {3, 10}} { // 2 moves, 3 takes over
			require.NoError(t, l.leased(leaseOf(given[0], given[1])))
		}
		assert.Len(t, l.all(), 2)
		for i := range maxLeases - 10 { // without a look at all others for each
			one := leaseOf(100+i, 100+i)
			l.byMAC[[6]byte(one.MAC)] = lease{one, time.Now().Add(one.Left)}
		}
		for i := range 20 {
			require.NoError(t, l.leased(leaseOf(20000+i, 20000+i)))
		}
		assert.Len(t, l.byMAC, maxLeases)
		_, kept := l.byMAC[[6]byte{2, 0, 0, 0, 0, 3}]
		assert.False(t, kept, "what ended first has gone")
		for _, jump := range []time.Duration{-50 * 365 * 24 * time.Hour, 100 * 365 * 24 * time.Hour} {
			wall = wall.Add(jump)
			assert.WithinDuration(t, wall.Add(time.Minute), l.snapshot()[20].Expires, time.Second)
		}
	})
}

// TestToGatewayAllocatesNothing: the way to the gateway costs no allocation, whether frames are queued or written at once.
func TestToGatewayAllocatesNothing(t *testing.T) {
	n := startUp(t, Options{})
	f := make([]byte, 1514)
	copy(f, n.plan.MAC)
	copy(f[6:], []byte{2, 0, 0, 0, 0, 1})
	f[12], f[13] = 0x08, 0x00 // and no IPv4 header: dropped at the other end
	var wire []byte
	for range 20 {
		wire = frame.Append(wire, f)
	}
	b, source := frame.NewBatch(wire, 20), any(uint64(1))
	before := testing.AllocsPerRun(10, func() { n.gw.DeliverFrom(source, b) })
	assert.LessOrEqual(t, testing.AllocsPerRun(300, func() { n.gw.DeliverFrom(source, b) }), max(3, before), "the other end has its own")
}

// FuzzFromGateway: whatever a gateway says, nothing breaks, and no lease is outside of the pool.
func FuzzFromGateway(f *testing.F) {
	hello := gateway.AppendMessage(nil, gateway.KindHello, gateway.Hello{Protocol: gateway.Protocol})
	f.Add(hello)
	f.Add(gateway.AppendMessage(hello, gateway.KindLeased, dhcp.Lease{MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, IP: netip.MustParseAddr("192.168.105.9"), Left: 1}))
	f.Add(frame.Append(hello, make([]byte, 60)))
	o := Options{Start: func(*os.File) (*os.Process, error) { return nil, errors.New("none") }, tune: tuning{minDelay: time.Hour}}
	n := start(f, o)
	f.Fuzz(func(t *testing.T, b []byte) {
		l := &life{sup: &n.gw}
		p := gateway.Parser{Frames: l.frames, Message: l.message, MaxMessage: gateway.MaxMessage}
		used, err := p.Parse(b)
		if used > len(b) || err == nil && len(b)-used > frame.MaxLen+gateway.MaxMessage {
			t.Fatalf("%d of %d bytes used", used, len(b))
		}
		for _, l := range n.leases.all() {
			if !n.leases.permits(l.IP, l.MAC) {
				t.Fatalf("%v", l)
			}
		}
	})
}
