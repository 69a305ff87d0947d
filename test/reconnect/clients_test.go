// SPDX-License-Identifier: Apache-2.0

//go:build linux

package reconnect

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
	"github.com/socket-vmnet2/socket_vmnet2/test/lab/labtest"
	"github.com/socket-vmnet2/socket_vmnet2/test/lab/sequence"
)

// quiet is the case of something that guests must not notice: no disconnect, and no gap but what a busy machine makes.
func (r *rig) quiet(name string, event func(t *testing.T)) trial {
	return trial{rig: r, name: name, guests: both, event: event}
}

// unnoticed leaves room for a machine on which guests have gaps of seconds by themselves.
var unnoticed = Limits{Alive: true, Connected: true, OutageP50: 5 * time.Second}

// testClients ends clients within a frame, by hand and by killing a guest that sends all it can.
func (r *rig) testClients(t *testing.T) {
	r.quiet("50 clients end within a frame", func(t *testing.T) {
		for i := range 50 {
			// 3 bytes are within the length, 700 within the frame.
			r.raw(t, frame.Append(nil, make([]byte, 1400))[:[]int{3, 700}[i%2]])
		}
	}).keep(t, unnoticed, times(1, 3), tries)
	if !*long {
		return
	}
	small, err := r.lab.SendBuffer(t.Context(), 4096)
	require.NoError(t, err)
	victims := 0
	r.quiet("a guest is killed while it sends", func(t *testing.T) {
		victims++
		g := boot(t, r.lab, lab.GuestOptions{
			Name: fmt.Sprintf("victim%d", victims), MAC: "52:54:00:e2:e7:05", Netdev: lab.StreamNetdev(r.socket, reconnectEvery), QEMU: tools.NewQEMU, Env: small,
		})[0]
		require.NoError(t, g.Load(t.Context(), peerMAC, loadBytes))
		require.Eventually(t, func() bool { return r.peer.From(g.MAC).Frames > aliveTX }, patience, 20*time.Millisecond)
		require.NoError(t, g.Process().Signal(syscall.SIGKILL))
		require.NoError(t, g.Process().Wait(within(t, patience)))
	}).keep(t, unnoticed, 1, tries)
}

// raw connects, sends b and closes.
func (r *rig) raw(t *testing.T, b []byte) {
	t.Helper()
	c, err := net.Dial("unix", r.socket)
	require.NoError(t, err)
	_, err = c.Write(b)
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

// testSocketRemoved moves the path away and back, then removes it: who is connected does not notice. The next daemon makes it
// again.
func (r *rig) testSocketRemoved(t *testing.T) {
	r.quiet("socket path moved away for 1 s", func(t *testing.T) {
		away := r.socket + ".away"
		require.NoError(t, os.Rename(r.socket, away))
		time.Sleep(time.Second)
		_, err := net.Dial("unix", r.socket)
		require.ErrorIs(t, err, os.ErrNotExist)
		require.NoError(t, os.Rename(away, r.socket))
		r.raw(t, nil)
	}).keep(t, unnoticed, 1, tries)
	c := r.restarts(syscall.SIGTERM, 0)
	restart := c.event
	c.name = "socket path removed, then TERM"
	c.event = func(t *testing.T) {
		require.NoError(t, os.Remove(r.socket))
		restart(t)
	}
	c.keep(t, Limits{Alive: true}, 1, 1)
}

// testMidFrame has QEMU begin a connection within a frame: it was blocked on a large one when its daemon was killed, and
// goes on with the rest of it. The daemon closes that connection, and the guest is back with the next one.
func (r *rig) testMidFrame(t *testing.T) {
	const guest = 1 // the one whose buffer does not take such a frame whole
	g := r.guests[guest]
	labtest.Run(t, g, "ip link set eth0 mtu 20000")
	_, err := g.EndBackground(within(t, patience), "load")
	require.NoError(t, err)
	require.NoError(t, g.Load(t.Context(), peerMAC, 20000))
	_, err = r.alive(t.Context(), patience, guest)
	require.NoError(t, err)
	seen := false
	const most = 10
	for try := 1; try <= most && !seen; try++ {
		c := r.restarts(syscall.SIGKILL, 0)
		kill := c.event
		c.name = "KILL while blocked, one within a frame of 20,000 bytes"
		c.event = func(t *testing.T) {
			require.NoError(t, r.daemon.Signal(syscall.SIGSTOP))
			time.Sleep(300 * time.Millisecond)
			kill(t)
		}
		since := time.Now()
		row := c.run(t, 1)[guest]
		n, _ := away(g, since)
		t.Logf("try %d: %d disconnects, TX alive %d, revived %d", try, n, row.TX.Alive, row.Revived)
		if seen = n > 1; seen {
			assert.Contains(t, r.daemon.Output().String(), "length", "the daemon says why it closed the connection")
			results.find("connection begins within a frame", r.names[guest],
				"after stop and cont QEMU sent the rest of an old frame; the daemon closed that connection, the next one was in order")
		}
	}
	assert.True(t, seen, "QEMU began a connection within a frame in none of %d tries", most)
	_, err = g.EndBackground(within(t, patience), "load")
	require.NoError(t, err)
	labtest.Run(t, g, "ip link set eth0 mtu 1500")
	require.NoError(t, g.Load(t.Context(), peerMAC, loadBytes))
	_, err = r.alive(t.Context(), patience, both...)
	require.NoError(t, err)
}

// testOversize: a guest that sends the longest frames it can has them dropped where they do not fit, and keeps its
// connection. A client that announces more than any may send is closed alone.
func (r *rig) testOversize(t *testing.T) {
	g := r.guests[0]
	r.quiet("a guest sends frames of 65,549 bytes", func(t *testing.T) {
		labtest.Run(t, g, "ip link set eth0 mtu 65535")
		labtest.Run(t, g, "timeout 1 guest load eth0 "+r.guests[1].MAC+" 65549; [ $? = 143 ]")
		labtest.Run(t, g, "ip link set eth0 mtu 1500")
	}).keep(t, unnoticed, 1, tries)
	r.quiet("a client announces 69,633 bytes", func(t *testing.T) {
		c, err := net.Dial("unix", r.socket)
		require.NoError(t, err)
		defer c.Close()
		_, err = c.Write([]byte{0, 1, 0x10, 1})
		require.NoError(t, err)
		require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
		for b := make([]byte, 4096); err == nil; {
			_, err = c.Read(b)
		}
		assert.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the daemon closes it")
	}).keep(t, unnoticed, 1, tries)
}

// numbered is frame n to dst as the peer would send it.
func numbered(t *testing.T, dst string, n uint64, sent time.Duration) []byte {
	b := sequence.New(labtest.MAC(t, dst), labtest.MAC(t, peerMAC), 200)
	sequence.Put(b, sequence.Frame{Number: n, Sent: sent, Run: 2})
	return frame.Append(nil, b)
}
