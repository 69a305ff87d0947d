// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// datagramArgs make a daemon serve the datagram sockets of these tests, which may be root's.
var datagramArgs = []string{gatewayFlag, "--allow-uid=0"}

// startOpen starts a daemon for clients on all transports.
func startOpen(t *testing.T, args ...string) *process {
	t.Helper()
	p := launch(t, "socket_vmnet2", filepath.Join(vnettest.ShortDir(t), "s"), append(slices.Clone(datagramArgs), args...)...)
	p.ready(t)
	p.servesDatagrams(t)
	return p
}

// servesDatagrams waits until the extra sockets take connections: a daemon that was killed leaves its own behind.
func (p *process) servesDatagrams(t *testing.T) {
	t.Helper()
	for i, path := range []string{p.sock + ".d/attach", p.sock + ".d/adopt", vnettest.DatagramPath(p.sock)} {
		network := []string{"unix", "unix", "unixgram"}[i]
		require.Eventually(t, func() bool {
			c, err := net.Dial(network, path)
			if err == nil {
				_ = c.Close()
			}
			return err == nil
		}, patience, time.Millisecond, "no %s: %s", path, p.stderr)
	}
}

// The ways to a daemon.
func (p *process) stream() vnettest.Transport      { return vnettest.StreamSocket(p.sock) }
func (p *process) connected() vnettest.Transport   { return vnettest.PathSocket(p.sock, "", true) }
func (p *process) unconnected() vnettest.Transport { return vnettest.PathSocket(p.sock, "", false) }

func (p *process) attach(kind proto.Transport) vnettest.Transport {
	return vnettest.AttachSocket(p.sock, kind)
}

func (p *process) adopt(kind proto.Transport, ask bool) vnettest.Transport {
	return vnettest.AdoptSocket(p.sock, kind, ask)
}

// ways are all of them.
func (p *process) ways() []vnettest.Transport {
	return vnettest.Ways(p.sock, filepath.Dir(p.sock))
}

// dialWay makes a client that reads nothing before it is plugged into a guest.
func dialWay(t *testing.T, way vnettest.Transport) fakeguest.Link {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	l, err := way.Dial(ctx)
	require.NoError(t, err, way.Name)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// over is a guest by one of the ways.
func over(t *testing.T, way vnettest.Transport) *fakeguest.Guest {
	t.Helper()
	return plugIn(t, dialWay(t, way), fakeguest.Options{})
}

func plugIn(t *testing.T, l fakeguest.Link, o fakeguest.Options) *fakeguest.Guest {
	t.Helper()
	g, err := fakeguest.New(l, o)
	require.NoError(t, err)
	t.Cleanup(g.Close)
	return g
}

// testFrame is a frame that means nothing, with a text in it.
func testFrame(dst, src net.HardwareAddr, text string) []byte {
	return fakeguest.EthernetFrame(dst, src, fakeguest.TypeTest, []byte(text))
}

// arrives reports whether a frame with text reaches g within d.
func arrives(l *fakeguest.Listener, text string, d time.Duration) bool {
	for end := time.Now().Add(d); ; {
		f, err := l.Next(time.Until(end))
		if err != nil {
			return false
		}
		if strings.TrimRight(string(f[14:]), "\x00") == text {
			return true
		}
	}
}

// hears waits until what send sends, again and again, reaches g: ports start late, and clients may be on their way out.
func hears(t *testing.T, g *fakeguest.Guest, text string, send func() error) {
	t.Helper()
	l := g.Listen(nil)
	defer l.Close()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		require.NoError(t, g.Err(), "waiting for %q", text)
		require.NoError(t, send())
		if arrives(l, text, 20*time.Millisecond) {
			return
		}
	}
	require.Fail(t, "lost", "%q never came", text)
}

// introduce makes guests known to each other: each one's broadcast has reached all others.
func introduce(t *testing.T, all ...*fakeguest.Guest) {
	t.Helper()
	for _, g := range all {
		for _, to := range all {
			if g != to {
				text := "from " + g.MAC().String()
				hears(t, to, text, func() error { // a datagram client is not known before it has sent something
					return errors.Join(to.Send(testFrame(fakeguest.Broadcast, to.MAC(), "here")),
						g.Send(testFrame(fakeguest.Broadcast, g.MAC(), text)))
				})
			}
		}
	}
}

// maxFrame is the longest frame that one stream client of the daemons under test can send to another, in bytes.
var maxFrame = frame.MaxStreamLen

// onSimulator reports that the daemons under test are on the simulated vmnet, which carries Ethernet's frames only.
func onSimulator() bool { return maxFrame == frame.MaxEthernetLen }

// texts are those of the frames that have come.
func texts(l *fakeguest.Listener) (all []string) {
	for _, f := range l.Collect(10 * time.Millisecond) {
		all = append(all, string(f[14:]))
	}
	return all
}

// TestRefusedIsTold: what is refused with advice in the log stands in what the daemon tells of itself.
func TestRefusedIsTold(t *testing.T) {
	p := startOpen(t)
	c, err := net.Dial("unixgram", vnettest.DatagramPath(p.sock)) // which has no address
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Write(make([]byte, 60))
	require.NoError(t, err)
	s := p.describes(t, func(s status.Status) bool { return len(s.Totals.Unserved) > 0 })
	assert.Equal(t, "unbound", s.Totals.Unserved[0].Reason)
	i := slices.IndexFunc(s.Health, func(h status.Problem) bool { return h.Code == status.NotServed })
	require.GreaterOrEqual(t, i, 0)
	p.says(t, s.Totals.Unserved[0].Advice)
	assert.Contains(t, strings.ToLower(s.Health[i].Fix[0]), s.Totals.Unserved[0].Advice)
}

// TestSevenDeafAndOneHealthy: seven of nine clients of the shared socket never read, and are sent to at full speed. The healthy ones, by a
// socket that is connected and one that is not, and the stream clients lose nothing.
func TestSevenDeafAndOneHealthy(t *testing.T) {
	p := startOpen(t)
	s1, s2, flooder := over(t, p.stream()), over(t, p.stream()), over(t, p.stream())
	g, other := over(t, p.connected()), over(t, p.unconnected())
	introduce(t, s1, s2, flooder, g, other)
	var batch [][]byte
	for i := range 7 {
		mac := net.HardwareAddr{2, 0, 0, 0, 0xd, byte(i)}
		l := dialWay(t, []vnettest.Transport{p.unconnected(), p.connected()}[i%2])
		hears(t, s1, "deaf", func() error { return l.Send(testFrame(fakeguest.Broadcast, mac, "deaf")) })
		for range 8 {
			batch = append(batch, fakeguest.EthernetFrame(mac, flooder.MAC(), fakeguest.TypeTest, make([]byte, 1500)))
		}
	}
	stop, full := make(chan struct{}), make(chan struct{})
	var flood sync.WaitGroup
	flood.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			assert.NoError(t, flooder.Send(batch...))
			if i == 500 { // 4,000 frames for each deaf client: what can be full is full
				close(full)
			}
		}
	})
	defer flood.Wait()
	defer close(stop)
	<-full
	stopFlows := p.beside(t, [2]*fakeguest.Guest{s1, g}, [2]*fakeguest.Guest{g, s2}, [2]*fakeguest.Guest{s2, other}, [2]*fakeguest.Guest{other, s1})
	time.Sleep(time.Second) // a thousand frames for each
	stopFlows()
	assert.True(t, p.alive())
}

// TestMaxClientsCountsAllKinds: --max-clients is for all transports together, and one that leaves makes room.
func TestMaxClientsCountsAllKinds(t *testing.T) {
	p := startOpen(t, "--max-clients=5")
	p.describes(t, running(0)) // those that asked whether it is ready have gone
	s := over(t, p.stream())
	connected, unconnected := over(t, p.connected()), over(t, p.unconnected())
	attached, adopted := over(t, p.attach(proto.Datagram)), over(t, p.adopt(proto.Datagram, true))
	introduce(t, s, connected, unconnected, attached, adopted)

	_, err := proto.Attach(t.Context(), p.sock, proto.Request{})
	refused := &proto.Error{}
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, proto.Full, refused.Code)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = p.adopt(proto.Datagram, true).Dial(ctx)
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, proto.Full, refused.Code)
	extra := over(t, p.stream())
	select {
	case <-extra.Done():
	case <-time.After(patience):
		assert.Fail(t, "a stream client above the limit is served")
	}
	late := over(t, p.unconnected())
	l := s.Listen(func(f []byte) bool { return bytes.Equal(f[6:12], late.MAC()) })
	for range 20 {
		require.NoError(t, late.Send(testFrame(fakeguest.Broadcast, late.MAC(), "one too many")))
		time.Sleep(time.Millisecond)
	}
	introduce(t, s, connected)
	assert.Empty(t, texts(l))
	p.says(t, "--max-clients")
	assert.Less(t, strings.Count(p.stderr.String(), "--max-clients"), 10, "%s", p.stderr)

	attached.Close()
	hears(t, s, "room at last", func() error { return late.Send(testFrame(fakeguest.Broadcast, late.MAC(), "room at last")) })
	introduce(t, s, connected, unconnected, adopted, late)
}
