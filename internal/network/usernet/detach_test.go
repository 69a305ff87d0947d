// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// again is i as a new program has it: from JSON and descriptors.
func again(t *testing.T, i *Inherited) *Inherited {
	b, err := json.Marshal(i.State)
	require.NoError(t, err)
	var out Inherited
	require.NoError(t, json.Unmarshal(b, &out.State))
	f, err := i.Pair.File()
	require.NoError(t, err)
	require.NoError(t, i.Pair.Close())
	c, err := net.FileConn(f)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	out.Pair = c.(*net.UnixConn)
	for _, s := range i.Sockets {
		if _, ok := s.(*os.File); ok {
			out.Sockets = append(out.Sockets, s)
			continue
		}
		file, err := s.(interface{ File() (*os.File, error) }).File()
		require.NoError(t, err)
		require.NoError(t, s.Close())
		out.Sockets = append(out.Sockets, file)
	}
	return &out
}

// guest is a client that comes back with its session.
type guest struct {
	*fakeguest.Guest
	net *Network
	got *fakeguest.Listener
}

// oneSession is a network whose ports are all of one client's session.
type oneSession struct{ *Network }

func (n oneSession) Attach(ctx context.Context, o network.PortOptions, sink frame.Sink) (network.Port, error) {
	o.Session = 7
	return n.Network.Attach(ctx, o, sink)
}

func comeBack(t *testing.T, n *Network) *guest {
	o := fakeguest.Options{MAC: net.HardwareAddr{2, 0, 0, 0, 0, 7}}
	g := &guest{Guest: vnettest.Attach(t, oneSession{n}, o), net: n}
	g.SetAddr(netip.PrefixFrom(guestIP, 24), gatewayIP)
	g.got = g.Listen(nil)
	return g
}

// echo exchanges a datagram with a socket on the host's loopback by way of the gateway, and returns the source that the host saw.
func (g *guest) echo(t *testing.T, host *net.UDPConn, text string) netip.AddrPort {
	t.Helper()
	to := netip.AddrPortFrom(g.net.Alias(), host.LocalAddr().(*net.UDPAddr).AddrPort().Port())
	mac, err := g.Resolve(gatewayIP) // which knows the guest then
	require.NoError(t, err)
	require.NoError(t, g.Send(fakeguest.EthernetFrame(mac, g.MAC(), fakeguest.TypeIPv4, fakeguest.UDPPacket(netip.AddrPortFrom(guestIP, 1000), to, []byte(text)))))
	buf := make([]byte, 1500)
	require.NoError(t, host.SetReadDeadline(time.Now().Add(patience)))
	k, source, err := host.ReadFromUDPAddrPort(buf)
	require.NoError(t, err)
	require.Equal(t, text, string(buf[:k]))
	_, err = host.WriteToUDPAddrPort(buf[:k], source)
	require.NoError(t, err)
	g.answered(t, text)
	return source
}

// answered waits for a datagram with text.
func (g *guest) answered(t *testing.T, text string) {
	t.Helper()
	for {
		f, err := g.got.Next(patience)
		require.NoError(t, err, "no answer %s", text)
		if p, err := fakeguest.Parse(f); err == nil && p.Proto == fakeguest.ProtoUDP && string(p.Data) == text {
			return
		}
	}
}

// TestDetach: a gateway's process goes on from one network to the next with its connections, its leases and its forwards; what comes
// from the host in between waits, and a client that comes back is the same to it.
func TestDetach(t *testing.T) {
	f := forwardTo(t, "tcp", 80)
	o := Options{}
	o.Mode, o.Forwards = network.ModeShared, []network.Forward{f}
	n := start(t, o)
	host, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer host.Close()
	g := comeBack(t, n)
	source := g.echo(t, host, "before")
	_, u := n.Status()
	pid := u.Gateway.PID
	for round, text := range []string{"one", "two", "three"} {
		i, err := n.Detach()
		require.NoError(t, err)
		g.Close()
		require.NoError(t, n.Close(), "it has nothing left")
		_, err = host.WriteToUDPAddrPort([]byte(text), source) // while there is no network
		require.NoError(t, err)
		if round > 0 {
			i = again(t, i) // else the exec has failed, and it is the same program
		}
		o.Inherited = i
		n = start(t, o)
		g = comeBack(t, n)
		n.Resume()
		g.answered(t, text)
		assert.Equal(t, source, g.echo(t, host, "again"), "it is the same flow")
		_, u := n.Status()
		assert.Equal(t, pid, u.Gateway.PID)
		assert.Eventually(t, func() bool {
			n.gw.ask() // as at the next tick
			_, u = n.Status()
			return u.UDPFlows == 1
		}, patience, 10*time.Millisecond)
		assert.Equal(t, running, u.Gateway.State)
		reaches(t, n, f)
	}
	_, err = vnettest.Attach(t, n, fakeguest.Options{}).Configure()
	require.NoError(t, err)
	require.NoError(t, n.Close())
	assert.Error(t, syscall.Kill(pid, 0), "reaped")
	occupy(t, f)
}

// TestDetachUnderLoad: nothing of what a client sends is cut, whatever the gateway has taken of it.
func TestDetachUnderLoad(t *testing.T) {
	o := Options{}
	o.Mode = network.ModeShared
	n := startUp(t, o)
	for round := range 20 {
		g := comeBack(t, n)
		ip := fakeguest.IPv4Packet(guestIP, gatewayIP, fakeguest.ProtoICMP, fakeguest.ICMPMessage(fakeguest.EchoRequest, 7, 1, make([]byte, 1400)))
		for range 300 {
			require.NoError(t, g.Send(fakeguest.EthernetFrame(n.GatewayMAC(), g.MAC(), fakeguest.TypeIPv4, ip)))
		}
		i, err := n.Detach()
		require.NoError(t, err)
		g.Close()
		o.Inherited = again(t, i)
		n = start(t, o)
		if round%2 == 0 {
			n.Resume()
		}
	}
	n.Resume()
	_, u := n.Status()
	assert.Zero(t, u.Gateway.Restarts)
	assert.Zero(t, u.Drops["malformed"])
	require.NoError(t, n.Close())
}

// TestCloseBeforeResume: a gateway that was taken over ends with the network though it was never told to go on.
func TestCloseBeforeResume(t *testing.T) {
	n := startUp(t, Options{})
	i, err := n.Detach()
	require.NoError(t, err)
	require.NoError(t, start(t, Options{Inherited: again(t, i)}).Close())
	assert.Error(t, syscall.Kill(i.State.PID, 0), "reaped")
}

// TestDetachWithoutGateway: a network whose gateway is being started again ends as by Close.
func TestDetachWithoutGateway(t *testing.T) {
	n := start(t, Options{Start: gateway.Program{Path: "/nonexistent"}.Start})
	_, err := n.Detach()
	assert.ErrorIs(t, err, errNoGateway)
}

// TestInheritedIsDead: a gateway that ended while its daemon was replaced, or speaks another protocol, makes room for a new one.
func TestInheritedIsDead(t *testing.T) {
	for name, spoil := range map[string]func(i *Inherited){
		"killed":           func(i *Inherited) { _ = syscall.Kill(i.State.PID, syscall.SIGKILL) },
		"another protocol": func(i *Inherited) { i.State.Hello.Protocol = 99 },
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{}
			o.Mode = network.ModeShared
			n := startUp(t, o)
			i, err := n.Detach()
			require.NoError(t, err)
			i = again(t, i)
			spoil(i)
			o.Inherited = i
			n = start(t, o)
			n.Resume()
			require.Eventually(t, func() bool {
				_, u := n.Status()
				return u.Gateway.State == running && u.Gateway.PID != i.State.PID
			}, patience, time.Millisecond)
			assert.Error(t, syscall.Kill(i.State.PID, 0), "reaped")
		})
	}
}
