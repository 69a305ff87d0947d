// SPDX-License-Identifier: Apache-2.0

//go:build linux

package reconnect

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// What no daemon of ours does to QEMU, done by a hub that does: it shows what the rules of the daemon are for, and that they
// still hold for the QEMU at hand.

// hub takes one QEMU's connection at a time, and reads only when it is told to.
type hub struct {
	ln    *net.UnixListener
	guest *lab.Guest
	conn  net.Conn
	n     uint64 // of the frames it has sent
	zero  time.Time
}

// TestTraps: each trap is sprung on a guest that sends all it can.
func TestTraps(t *testing.T) {
	l := programs.NewLab(t)
	small, err := l.SendBuffer(t.Context(), 4096)
	require.NoError(t, err)
	names := []string{"4 KiB buffer", "default buffer"}[:times(1, 2)]
	var hubs []*hub
	var options []lab.GuestOptions
	for i := range names {
		h := fmt.Sprintf("h%d", i)
		hubs = append(hubs, newHub(t, l, h))
		options = append(options, lab.GuestOptions{
			Name: fmt.Sprintf("g%d", i), MAC: fmt.Sprintf("52:54:00:e2:e8:0%d", i+1), QEMU: tools.NewQEMU, Env: [][]string{small, nil}[i],
			Netdev: lab.StreamNetdev(l.Path(h), reconnectEvery),
		})
	}
	for i, g := range boot(t, l, options...) {
		hubs[i].guest = g
		require.NoError(t, g.Watch(t.Context()))
		require.NoError(t, g.Load(t.Context(), peerMAC, loadBytes))
	}
	for i, h := range hubs {
		t.Run(names[i], func(t *testing.T) {
			h.accept(t)
			t.Run("closed while blocked", func(t *testing.T) { h.testBlocked(t, names[i]) })
			t.Run("frame of no bytes", func(t *testing.T) { h.testEmpty(t, names[i]) })
			t.Run("closed within a frame", func(t *testing.T) { h.testHalf(t, names[i]) })
			t.Run("frame too long", func(t *testing.T) { h.testOversize(t, names[i]) })
		})
	}
}

func newHub(t *testing.T, l *lab.Lab, name string) *hub {
	t.Helper()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: l.Path(name)})
	require.NoError(t, err)
	h := &hub{ln: ln, zero: time.Now()}
	t.Cleanup(func() {
		ln.Close()
		if h.conn != nil {
			h.conn.Close()
		}
	})
	return h
}

// accept waits for QEMU.
func (h *hub) accept(t *testing.T) {
	t.Helper()
	require.NoError(t, h.ln.SetDeadline(time.Now().Add(patience)))
	c, err := h.ln.Accept()
	require.NoError(t, err, "QEMU comes back")
	h.conn = c
}

// read reads up to d and returns how many bytes came, more than enough or all.
func (h *hub) read(t *testing.T, enough int, d time.Duration) (n int) {
	t.Helper()
	require.NoError(t, h.conn.SetReadDeadline(time.Now().Add(d)))
	for b := make([]byte, 256<<10); n < enough; {
		got, err := h.conn.Read(b)
		n += got
		if err != nil {
			break
		}
	}
	return n
}

// flows reports whether frames come from the guest.
func (h *hub) flows(t *testing.T, d time.Duration) bool {
	t.Helper()
	return h.read(t, aliveTX*loadBytes, d) >= aliveTX*loadBytes
}

// send sends b.
func (h *hub) send(t *testing.T, b []byte) {
	t.Helper()
	require.NoError(t, h.conn.SetDeadline(time.Now().Add(patience)))
	_, err := h.conn.Write(b)
	require.NoError(t, err)
}

// hears reports whether numbered frames arrive at the guest within d.
func (h *hub) hears(t *testing.T, d time.Duration) bool {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	require.NoError(t, h.conn.SetDeadline(time.Time{}))
	wg.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(peerEvery) {
			h.n++
			if _, err := h.conn.Write(numbered(t, h.guest.MAC, h.n, time.Since(h.zero))); err != nil {
				return
			}
		}
	})
	wg.Go(func() { _, _ = io.Copy(io.Discard, h.conn) })
	defer func() {
		stop()
		_ = h.conn.SetDeadline(time.Now())
		wg.Wait()
	}()
	before, end := uint64(0), time.Now().Add(d)
	for first := true; ; first = false {
		seen, err := h.guest.Counted(within(t, time.Minute), false)
		require.NoError(t, err)
		n := seen[peerMAC].Frames
		if first {
			before = n
		}
		if n >= before+aliveRX {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// settle waits until what was sent before has arrived.
func (h *hub) settle(t *testing.T) {
	t.Helper()
	before := uint64(0)
	require.Eventually(t, func() bool {
		seen, err := h.guest.Counted(within(t, time.Minute), false)
		n := seen[peerMAC].Frames
		still := err == nil && n == before
		before = n
		return still
	}, patience, 500*time.Millisecond)
}

// well wants frames in both directions.
func (h *hub) well(t *testing.T) {
	t.Helper()
	require.True(t, h.flows(t, patience), "the guest sends")
	require.True(t, h.hears(t, patience), "the guest receives")
}

func (h *hub) stopCont(t *testing.T) {
	t.Helper()
	for _, command := range []string{"stop", "cont"} {
		_, err := h.guest.QMP().Execute(command, nil)
		require.NoError(t, err)
	}
}

// testBlocked: QEMU is blocked on a write when its hub closes.
func (h *hub) testBlocked(t *testing.T, name string) {
	h.well(t)
	const most = 4
	for try := 1; ; try++ {
		time.Sleep(400 * time.Millisecond) // nobody reads, the socket fills in a few ms
		require.NoError(t, h.conn.Close())
		h.accept(t)
		if !h.flows(t, hopeless) {
			break
		}
		require.Less(t, try, most, "this QEMU does not have the fault that the drain is for: see whether it is mended")
	}
	heard := h.hears(t, patience)
	assert.True(t, heard, "it receives")
	h.stopCont(t)
	assert.True(t, h.flows(t, patience), "it sends after stop and cont")
	results.find("hub stops reading, then closes", name, "QEMU is back and receives, but sends nothing until stop and cont")
}

// testEmpty: a frame of length 0.
func (h *hub) testEmpty(t *testing.T, name string) {
	h.well(t)
	since := time.Now()
	h.send(t, make([]byte, 4))
	h.settle(t)
	assert.False(t, h.hears(t, hopeless), "the guest receives")
	assert.True(t, h.flows(t, patience), "the guest sends")
	require.NoError(t, h.conn.Close())
	ctx, cancel := context.WithTimeout(t.Context(), hopeless)
	defer cancel()
	_, err := h.guest.QMP().WaitEvent(ctx, lab.EventStreamDisconnected, since)
	noticed := err == nil
	if !noticed {
		h.stopCont(t)
	}
	h.accept(t)
	h.well(t)
	results.find("frame of length 0 to QEMU", name,
		"it receives nothing more and sends on; it notices the end of the connection: %t; otherwise stop and cont bring it back", noticed)
}

// testHalf: the connection ends within a frame for QEMU.
func (h *hub) testHalf(t *testing.T, name string) {
	h.well(t)
	h.send(t, numbered(t, h.guest.MAC, h.n+1, 0)[:100])
	h.drainAndClose(t)
	h.accept(t)
	h.well(t)
	results.find("hub closes within a frame", name, "QEMU is back and reads the next connection from its begin")
}

// testOversize: 69,633 bytes are one more than QEMU takes.
func (h *hub) testOversize(t *testing.T, name string) {
	h.well(t)
	since := time.Now()
	frame := make([]byte, 4+69633)
	binary.BigEndian.PutUint32(frame, 69633)
	require.NoError(t, h.conn.SetDeadline(time.Now().Add(patience)))
	_, _ = h.conn.Write(frame) // it may have closed before all of it was written
	h.read(t, 1<<40, hopeless)
	_, err := h.guest.QMP().WaitEvent(within(t, patience), lab.EventStreamDisconnected, since)
	assert.NoError(t, err, "QEMU closes the connection")
	h.conn.Close()
	h.accept(t)
	sends, hears := h.flows(t, hopeless), h.hears(t, patience)
	assert.True(t, hears, "it receives")
	if !sends {
		h.stopCont(t)
		assert.True(t, h.flows(t, patience), "it sends after stop and cont")
	}
	results.find("frame of 69,633 bytes to QEMU", name, "it closes the connection and is back; it sends without further ado: %t", sends)
}

// drainAndClose closes as the daemon does, with nothing left to read.
func (h *hub) drainAndClose(t *testing.T) {
	t.Helper()
	_, err := h.guest.QMP().Execute("stop", nil) // a guest that sends all it can is never quiet
	require.NoError(t, err)
	for h.read(t, 1<<40, time.Second) > 0 { // to the end, also if this process had no processor for a while
	}
	require.NoError(t, h.conn.Close())
	_, err = h.guest.QMP().Execute("cont", nil)
	require.NoError(t, err)
}
