// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

// An outside is a guest's TCP connection through the gateway to a program on the host.
type outside struct {
	t        *testing.T
	g        *fakeguest.Guest
	gateway  net.HardwareAddr
	host     net.Conn
	from, to netip.AddrPort
	seq, ack uint32
}

// goOutside connects a guest of p to the host.
func goOutside(t *testing.T, p *process) *outside {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	o := &outside{t: t, g: guest(t, p, 1), to: netip.AddrPortFrom(hostAlias, l.Addr().(*net.TCPAddr).AddrPort().Port()), seq: 1}
	lease, err := o.g.Configure()
	require.NoError(t, err)
	o.g.SetAddr(lease.Addr, gatewayAddr)
	o.gateway, err = o.g.Resolve(gatewayAddr)
	require.NoError(t, err)
	o.from = netip.AddrPortFrom(lease.Addr.Addr(), 1000)
	answers := o.g.Listen(func(f []byte) bool {
		p, err := fakeguest.Parse(f)
		return err == nil && p.From() == o.to && p.TCPFlags == fakeguest.TCPSyn|fakeguest.TCPAck
	})
	o.send(fakeguest.TCPSyn)
	f, err := answers.Next(patience)
	require.NoError(t, err)
	answer, _ := fakeguest.Parse(f)
	o.seq, o.ack = o.seq+1, answer.TCPSeq+1
	o.send(fakeguest.TCPAck)
	require.NoError(t, l.(*net.TCPListener).SetDeadline(time.Now().Add(patience)))
	o.host, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = o.host.Close() })
	return o
}

// send sends a segment.
func (o *outside) send(flags byte, data ...byte) {
	p := fakeguest.TCPPacket(o.from, o.to, flags, o.seq, o.ack, data...)
	require.NoError(o.t, o.g.Send(fakeguest.EthernetFrame(o.gateway, o.g.MAC(), fakeguest.TypeIPv4, p)))
}

// exchange sends a text, which no other exchange had, to the host and back.
func (o *outside) exchange(text string) {
	o.t.Helper()
	answers := o.g.Listen(func(f []byte) bool {
		p, err := fakeguest.Parse(f)
		return err == nil && p.From() == o.to && string(p.Data) == text
	})
	o.send(fakeguest.TCPAck, []byte(text)...)
	require.NoError(o.t, o.host.SetDeadline(time.Now().Add(patience)))
	b := make([]byte, len(text))
	_, err := io.ReadFull(o.host, b)
	require.NoError(o.t, err)
	_, err = o.host.Write(b) // which the guest compares
	require.NoError(o.t, err)
	_, err = answers.Next(patience)
	require.NoError(o.t, err)
	o.seq, o.ack = o.seq+uint32(len(text)), o.ack+uint32(len(text))
	o.send(fakeguest.TCPAck)
}

// TestUpgradeOfTheGateway: with --gateway it is another process as well, and only connections through it end.
func TestUpgradeOfTheGateway(t *testing.T) {
	p, _ := startOwn(t, gatewayFlag, "--backend=usernet")
	o := goOutside(t, p)
	o.exchange("before")
	before, _ := p.status(t)
	said, err := exec.Command(filepath.Join(binaries, "socket_vmnet2"), "upgrade", "--gateway", p.sock).CombinedOutput()
	require.NoError(t, err, "%s", said)
	assert.Regexp(t, `1 client kept \(stream: 1\): \S+\nconnections to the outside ended: the gateway was started anew\n`, string(said))
	_, err = o.host.Read(make([]byte, 1))
	assert.True(t, err != nil && !errors.Is(err, os.ErrDeadlineExceeded), "%v", err)
	_, err = o.g.Ping(gatewayAddr, 56)
	require.NoError(t, err)
	after, _ := p.status(t)
	assert.NotEqual(t, before.Network.Usernet.Gateway.PID, after.Network.Usernet.Gateway.PID)
}
