// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/fakeguest"
)

const gatewayFlag = "--vmnet-gateway=192.168.105.1"

var gatewayAddr = netip.MustParseAddr("192.168.105.1")

// TestNewFlagsThatAreRefused: before anything is touched, and with what is wrong.
func TestNewFlagsThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"API", []string{"--vmnet-api=x"}, "--vmnet-api=x is unknown"},
		{"interfaces", []string{"--vmnet-interfaces=0"}, "--vmnet-interfaces=0 is unknown"},
		{"local switching", []string{"--local-switching=auto"}, "--local-switching=auto is unknown"},
		{"local switching, isolate", []string{"--local-switching=on", "--isolate"}, "--local-switching=on conflicts with --isolate"},
		{"host loopback", []string{"--host-loopback=yes"}, "--host-loopback=yes is unknown: use on or off"},
		{"MTU", []string{"--vmnet-mtu=100"}, "from 1280 to 16384"},
		{"reservation without gateway", []string{"--vmnet-reserve=52:54:00:12:34:56=192.168.105.9"}, "requires --vmnet-gateway=IP"},
		{"reservation elsewhere", []string{gatewayFlag, "--vmnet-reserve=52:54:00:12:34:56=10.0.0.9"}, "is not in the network"},
		{"reservation of the embedded network's alias", []string{gatewayFlag, "--vmnet-reserve=52:54:00:12:34:56=192.168.105.254"}, "the host's own address"},
		{"reservation without DHCP", []string{gatewayFlag, "--vmnet-disable-dhcp", "--vmnet-reserve=52:54:00:12:34:56=192.168.105.9"}, "needs the DHCP server"},
		{"forward", []string{"--vmnet-forward=80:80"}, "not of the form PROTO:PORT=IP:PORT"},
		{"forward twice", []string{gatewayFlag, "--vmnet-forward=tcp:1=192.168.105.9:1", "--vmnet-forward=tcp:1=192.168.105.9:2"}, "is forwarded already"},
		{"forward to where the embedded network is not", []string{"--vmnet-forward=tcp:1=10.0.0.9:1"}, "10.0.0.9 is not in the network 192.168.105.0/24"},
		{"forward to the alias", []string{gatewayFlag, "--vmnet-forward=tcp:1=192.168.105.254:1"}, "the host's own address"},
		{"names without DNS", []string{gatewayFlag, "--vmnet-disable-dns-proxy", "--dns-record=a=10.0.0.9"}, "needs the DNS server"},
		{"isolate, bridged", []string{"--vmnet-mode=bridged", "--vmnet-interface=en0", "--isolate"}, `"bridged" conflicts with --isolate`},
		{"MTU, bridged", []string{"--vmnet-mode=bridged", "--vmnet-interface=en0", "--vmnet-mtu=1500"}, `"bridged" conflicts with --vmnet-mtu`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := refused(t, t.TempDir(), "socket_vmnet2", append(append([]string{"--backend=usernet"}, c.args...), "-p", "pid", "./s")...)
			assert.Contains(t, r.stderr, c.want)
			r = refused(t, t.TempDir(), "socket_vmnet", append(c.args, "s")...)
			assert.NotEmpty(t, r.stderr+r.stdout, "the old program does not know them")
		})
	}
}

// TestFlagsWithoutEffect: guests can do the same without them, so the daemon runs and says so.
func TestFlagsWithoutEffect(t *testing.T) {
	p := start(t, gatewayFlag, "--vmnet-api=network", "--vmnet-interfaces=one", "--local-switching=on", "--offload", "--vmnet-disable-nat66", "--vmnet-disable-ra")
	_, err := guest(t, p, 1).Configure()
	require.NoError(t, err)
	for _, name := range []string{"--vmnet-api", "--vmnet-interfaces", "--local-switching", "--offload"} {
		p.says(t, "WARN | "+name+" has no effect: ")
	}
	assert.NotContains(t, p.stderr.String(), "nat66", "what it asks for is so")
}

func TestReservedAddressIsKept(t *testing.T) {
	dir := stateRoot(t)
	sock := filepath.Join(t.TempDir(), "s")
	run := func(more ...string) *process {
		p := launch(t, "socket_vmnet2", sock, append([]string{gatewayFlag, "--state-dir=" + dir}, more...)...)
		p.ready(t)
		return p
	}
	address := func(p *process, n byte) string {
		l, err := guest(t, p, n).Configure()
		require.NoError(t, err)
		return l.Addr.Addr().String()
	}
	p := run()
	assert.Equal(t, "192.168.105.2", address(p, 1))
	code, _ := p.signal(t, syscall.SIGTERM)
	require.Zero(t, code)

	p = run("--vmnet-reserve=02:00:00:00:01:02=192.168.105.2", "--vmnet-reserve=02:00:00:00:01:03=192.168.105.99")
	assert.Equal(t, "192.168.105.3", address(p, 1), "what it had is reserved for another")
	assert.Equal(t, "192.168.105.4", address(p, 4))
	assert.Equal(t, "192.168.105.2", address(p, 2))
	assert.Equal(t, "192.168.105.99", address(p, 3))
	g := guest(t, p, 5)
	_, err := g.Reboot(netip.MustParseAddr("192.168.105.99"))
	assert.ErrorIs(t, err, fakeguest.ErrNAK, "nobody else gets it by asking")
	g = guest(t, p, 3)
	l, err := g.Reboot(netip.MustParseAddr("192.168.105.99"))
	require.NoError(t, err)
	assert.Equal(t, "192.168.105.99/24", l.Addr.String())
}

// forwarding starts a daemon that forwards a port of the host, and returns that. Somebody may take a free one before the daemon
// does: then it is another one.
func forwarding(t *testing.T, proto string, free func(*testing.T) uint16, to string, args ...string) (*process, uint16) {
	t.Helper()
	for range 20 {
		port := free(t)
		p := launch(t, "socket_vmnet2", filepath.Join(t.TempDir(), "s"), append(args, fmt.Sprintf("--vmnet-forward=%s:%d=%s", proto, port, to))...)
		for end := time.Now().Add(patience); p.alive() && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if visit(p.sock) == nil {
				return p, port
			}
		}
		require.False(t, p.alive(), "not ready: %s", p.stderr)
		require.Contains(t, p.stderr.String(), "another program uses that port")
	}
	require.Fail(t, "no port stays free")
	return nil, 0
}

// freeTCP and freeUDP are ports of the host that nobody used a moment ago.
func freeTCP(t *testing.T) uint16 {
	l, err := net.Listen("tcp4", ":0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).AddrPort().Port()
}

func freeUDP(t *testing.T) uint16 {
	c, err := net.ListenPacket("udp4", ":0")
	require.NoError(t, err)
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Port()
}

// segment is a TCP segment as the guest saw it.
type segment struct {
	fakeguest.Packet
	seq, ack uint32
}

// nextSegment waits for a segment with all of flags, or with data.
func nextSegment(t *testing.T, l *fakeguest.Listener, flags byte, data string) segment {
	t.Helper()
	for {
		f, err := l.Next(patience)
		require.NoError(t, err)
		p, err := fakeguest.Parse(f)
		require.NoError(t, err)
		if p.Proto != fakeguest.ProtoTCP || p.TCPFlags&flags != flags || string(p.Data) != data {
			continue
		}
		tcp := p.Payload[20:] // the gateway sends no IP options
		return segment{p, binary.BigEndian.Uint32(tcp[4:]), binary.BigEndian.Uint32(tcp[8:])}
	}
}

// TestForwardedTCP: the guest's side is made by hand: it sees the gateway connect, gets the data, and ends in order.
func TestForwardedTCP(t *testing.T) {
	p, port := forwarding(t, "tcp", freeTCP, "192.168.105.50:80", gatewayFlag, "--vmnet-reserve=02:00:00:00:01:05=192.168.105.50")
	g := guest(t, p, 5)
	_, err := g.Configure()
	require.NoError(t, err)
	l := g.Listen(nil)
	defer l.Close()
	outside, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	require.NoError(t, err)
	defer outside.Close()
	require.NoError(t, outside.SetDeadline(time.Now().Add(patience)))

	syn := nextSegment(t, l, fakeguest.TCPSyn, "")
	assert.Equal(t, gatewayAddr, syn.SrcIP)
	assert.Equal(t, netip.MustParseAddrPort("192.168.105.50:80"), syn.To())
	require.NoError(t, g.SendTCP(80, syn.From(), fakeguest.TCPSyn|fakeguest.TCPAck, 1000, syn.seq+1))
	_, err = outside.Write([]byte("hello"))
	require.NoError(t, err)
	data := nextSegment(t, l, fakeguest.TCPAck, "hello")
	assert.Equal(t, uint32(1001), data.ack)
	require.NoError(t, g.SendTCP(80, syn.From(), fakeguest.TCPAck|fakeguest.TCPFin, 1001, data.seq+5))
	b, err := io.ReadAll(outside)
	require.NoError(t, err, "the guest's end is passed on in order")
	assert.Empty(t, b)
	require.NoError(t, outside.Close())
	fin := nextSegment(t, l, fakeguest.TCPFin, "")
	assert.Equal(t, syn.From(), fin.From())

	second := launch(t, "socket_vmnet2", filepath.Join(t.TempDir(), "s"), gatewayFlag, fmt.Sprintf("--vmnet-forward=tcp:%d=192.168.105.9:80", port))
	<-second.ended
	assert.Equal(t, 1, second.ProcessState.ExitCode())
	assert.Contains(t, second.stderr.String(), fmt.Sprintf("forward tcp port %d to 192.168.105.9:80: another program uses that port", port))
	assert.Contains(t, second.stderr.String(), "Address already in use")
}

func TestForwardedUDP(t *testing.T) {
	p, port := forwarding(t, "udp", freeUDP, "192.168.105.50:53", "--vmnet-mode=host", gatewayFlag)
	g := guest(t, p, 5)
	g.SetAddr(netip.MustParsePrefix("192.168.105.50/24"), gatewayAddr)
	l := g.ListenUDP(53)
	defer l.Close()
	outside, err := net.Dial("udp4", fmt.Sprintf("127.0.0.1:%d", port))
	require.NoError(t, err)
	defer outside.Close()
	require.NoError(t, outside.SetDeadline(time.Now().Add(patience)))
	_, err = outside.Write([]byte("question"))
	require.NoError(t, err)
	f, err := l.Next(patience)
	require.NoError(t, err)
	question, err := fakeguest.Parse(f)
	require.NoError(t, err)
	assert.Equal(t, gatewayAddr, question.SrcIP)
	assert.Equal(t, "question", string(question.Data))
	require.NoError(t, g.SendUDP(53, question.From(), []byte("answer")))
	b := make([]byte, 100)
	n, err := outside.Read(b)
	require.NoError(t, err)
	assert.Equal(t, "answer", string(b[:n]))
}

func TestIsolatedGuests(t *testing.T) {
	for _, isolate := range []bool{false, true} {
		args := []string{gatewayFlag}
		if isolate {
			args = append(args, "--isolate")
		}
		p := start(t, args...)
		a, b := guest(t, p, 1), guest(t, p, 2)
		for _, g := range []*fakeguest.Guest{a, b} {
			_, err := g.Configure()
			require.NoError(t, err)
			_, err = g.Ping(gatewayAddr, 1)
			require.NoError(t, err)
		}
		reached := make(chan struct{}, 1)
		b.SetTap(func(f []byte) bool {
			if [6]byte(f[6:12]) == [6]byte(a.MAC()) {
				select {
				case reached <- struct{}{}:
				default:
				}
			}
			return false
		})
		const secret = "to another guest"
		for _, dst := range []net.HardwareAddr{b.MAC(), fakeguest.Broadcast, {0x33, 0x33, 0, 0, 0, 1}, {2, 7, 7, 7, 7, 7}} {
			require.NoError(t, a.Send(fakeguest.EthernetFrame(dst, a.MAC(), fakeguest.TypeTest, []byte(secret))))
		}
		_, err := a.Ping(gatewayAddr, 2)
		require.NoError(t, err, "all has gone through")
		_, err = b.Ping(gatewayAddr, 2)
		require.NoError(t, err)
		wait := patience
		if isolate {
			wait = 200 * time.Millisecond // it would be there by now
		}
		select {
		case <-reached:
			assert.False(t, isolate, "a frame of one guest reached the other")
		case <-time.After(wait):
			assert.True(t, isolate, "without the option guests reach each other")
		}
	}
}

// outsideAddr is an address of this host that counts as outside for a guest, so that a connection there says whether there
// is a way out. On a host without a network it is one that nobody has.
func outsideAddr(t *testing.T) (a netip.Addr, real bool) {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, x := range addrs {
		n, ok := x.(*net.IPNet)
		if a, ok2 := netip.AddrFromSlice(n.IP.To4()); ok && ok2 && a.IsGlobalUnicast() && !netip.MustParsePrefix("192.168.105.0/24").Contains(a) {
			return a, true
		}
	}
	return netip.MustParseAddr("198.51.100.1"), false
}

func TestNoWayOutWithoutNAT44(t *testing.T) {
	addr, real := outsideAddr(t)
	l, err := net.Listen("tcp4", ":0")
	require.NoError(t, err)
	defer l.Close()
	to := netip.AddrPortFrom(addr, l.Addr().(*net.TCPAddr).AddrPort().Port())
	for _, off := range []bool{false, true} {
		args := []string{gatewayFlag}
		if off {
			args = append(args, "--vmnet-disable-nat44")
		}
		g := guest(t, start(t, args...), 1)
		lease, err := g.Configure()
		require.NoError(t, err)
		assert.Equal(t, off, !lease.Gateway.IsValid(), "a default route only where it leads somewhere")
		g.SetAddr(lease.Addr, gatewayAddr)
		if !off && !real {
			continue
		}
		flags, err := g.ExchangeSYN(to)
		require.NoError(t, err)
		assert.Equal(t, off, flags&fakeguest.TCPRst != 0)
		alias := netip.AddrPortFrom(netip.MustParseAddr("192.168.105.254"), to.Port())
		flags, err = g.ExchangeSYN(alias)
		require.NoError(t, err)
		assert.Zero(t, flags&fakeguest.TCPRst, "the host's loopback is there in any case")
	}
}

func TestNoDNSServer(t *testing.T) {
	g := guest(t, start(t, gatewayFlag, "--vmnet-disable-dns-proxy"), 1)
	lease, err := g.Configure()
	require.NoError(t, err)
	assert.Empty(t, lease.DNS)
	flags, err := g.ExchangeSYN(netip.AddrPortFrom(gatewayAddr, 53))
	require.NoError(t, err)
	assert.NotZero(t, flags&fakeguest.TCPRst)
}

func TestMTUIsTold(t *testing.T) {
	p := start(t, gatewayFlag, "--vmnet-mtu=9000")
	g := guest(t, p, 1)
	lease, err := g.Configure()
	require.NoError(t, err)
	assert.Equal(t, []byte{9000 >> 8, 9000 & 255}, lease.ACK.Options.Get(dhcpv4.OptionInterfaceMTU))
	p.says(t, "INFO | * vmnet_mtu: 9000\nINFO | * vmnet_max_packet_size: 9014\n")
}
