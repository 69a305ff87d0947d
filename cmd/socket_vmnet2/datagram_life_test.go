// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
	"github.com/socket-vmnet2/socket_vmnet2/internal/state"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// TestStopWithClientsOfAllKinds: the daemon stops in time whatever its clients are connected by and whether they read, and
// removes its sockets.
func TestStopWithClientsOfAllKinds(t *testing.T) {
	p := startOpen(t)
	s := over(t, p.stream())
	introduce(t, s, over(t, p.stream()))
	var batch [][]byte
	for i, way := range p.ways() {
		_ = over(t, way)
		l, mac := dialWay(t, way), net.HardwareAddr{2, 0, 0, 0, 7, byte(i)}
		hears(t, s, way.Name, func() error { return l.Send(testFrame(fakeguest.Broadcast, mac, way.Name)) })
		for range 8 {
			batch = append(batch, fakeguest.EthernetFrame(mac, s.MAC(), fakeguest.TypeTest, make([]byte, 1500)))
		}
	}
	attached, err := proto.Attach(t.Context(), p.sock, proto.Request{})
	require.NoError(t, err)
	defer attached.Close()
	var wg sync.WaitGroup
	wg.Go(func() { // to the deaf ones, until the daemon ends the connection
		for s.Send(batch...) == nil {
		}
	})
	sender := over(t, p.unconnected())
	wg.Go(func() { // one that never stops sending datagrams
		for sender.Send(fakeguest.EthernetFrame(s.MAC(), sender.MAC(), fakeguest.TypeTest, make([]byte, 1500))) == nil {
		}
	})
	time.Sleep(200 * time.Millisecond)
	p.stop(t)
	wg.Wait()
	for _, path := range append(p.extraSockets(), p.sock) {
		assert.NoFileExists(t, path)
	}
	n, err := attached.Lifeline.Read(make([]byte, 1))
	assert.Zero(t, n, "the lifeline ends with the daemon: %v", err)
	assert.Error(t, err)
}

// TestPathClientsOutliveTheDaemon: guests on sockets that are not connected, as QEMU's, go on with the next daemon without
// doing anything for it, and have the same lease: one that has nothing to say is there for others as soon as that daemon is, and one
// that has gone meanwhile is none. One that is connected, as vfkit's, has its lease when it comes back on its path.
func TestPathClientsOutliveTheDaemon(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]os.Signal{"stopped": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			state, dir := stateRoot(t), shortDir(t)
			sock := filepath.Join(dir, "s")
			run := func() *process {
				p := launch(t, "socket_vmnet2", sock, append([]string{"--state-dir=" + state}, datagramArgs...)...)
				p.ready(t)
				p.servesDatagrams(t)
				return p
			}
			p := run()
			var guests []*fakeguest.Guest
			var leases []fakeguest.Lease
			for range 4 {
				g := over(t, p.unconnected())
				l, err := g.Configure()
				require.NoError(t, err)
				guests, leases = append(guests, g), append(leases, l)
			}
			silent, gone := guests[2], guests[3]
			guests = guests[:2]
			vfkit := fakeguest.PathOptions{
				Server: vnettest.DatagramPath(sock), Local: filepath.Join(dir, "vfkit"), Connected: true, Hello: true,
			}
			connect := func() (*fakeguest.Guest, fakeguest.Lease) {
				l, err := fakeguest.PathLink(t.Context(), vfkit)
				require.NoError(t, err)
				g := plugIn(t, l, fakeguest.Options{MAC: net.HardwareAddr{2, 0, 0, 0, 6, 1}})
				lease, err := g.Configure()
				require.NoError(t, err)
				return g, lease
			}
			g, lease := connect()
			if end == syscall.SIGKILL { // a crash may lose the last second of leases
				keeps(t, state, sock, guests[0].MAC(), guests[1].MAC(), silent.MAC(), gone.MAC(), g.MAC())
			}
			p.signal(t, end)
			assert.Error(t, guests[0].Send(testFrame(fakeguest.Broadcast, guests[0].MAC(), "to no daemon")))
			assert.Error(t, g.Send(testFrame(fakeguest.Broadcast, g.MAC(), "to no daemon")))
			<-g.Done()
			g.Close()
			gone.Close()

			p = run()
			other := over(t, p.stream())
			_, err := other.Configure()
			require.NoError(t, err)
			require.Eventually(t, func() bool { // it is invited when the sockets are there
				_, err := other.Ping(silent.Addr().Addr(), 56)
				return err == nil
			}, patience, time.Millisecond, "%s", p.stderr)
			for i, g := range guests {
				require.NoError(t, g.Announce()) // or whatever it sends first
				again, err := g.Renew(leases[i])
				require.NoError(t, err)
				assert.Equal(t, leases[i].Addr, again.Addr)
				assert.NoError(t, g.Err())
			}
			_, err = guests[0].Ping(guests[1].Addr().Addr(), 56)
			require.NoError(t, err)
			_, again := connect()
			assert.Equal(t, lease.Addr, again.Addr)
			_, err = guests[1].Ping(lease.Addr.Addr(), 56)
			assert.NoError(t, err)
		})
	}
}

// keeps waits until the daemon's state file has leases for these addresses.
func keeps(t *testing.T, dir, sock string, macs ...net.HardwareAddr) {
	t.Helper()
	require.Eventually(t, func() bool {
		b, err := os.ReadFile(filepath.Join(dir, state.FileName(sock)))
		return onSimulator() || err == nil && !slices.ContainsFunc(macs, func(m net.HardwareAddr) bool { return !bytes.Contains(b, []byte(m.String())) })
	}, patience, 10*time.Millisecond)
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
