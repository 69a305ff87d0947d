// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// testRig compiles the C programs; the daemon under test is never started.
func testRig(t *testing.T) *Rig {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return ForTest(t, Options{Daemon: self, Warm: 20 * time.Millisecond, Time: 200 * time.Millisecond})
}

func TestLoadThroughEveryRelay(t *testing.T) {
	r := testRig(t)
	const passed = Passed + Passed
	for _, tt := range []struct {
		name, relay string
		load        Load
	}{
		{"blind", Blind, Load{Clients: 2, Pairs: 1, Batch: BatchFrames}},
		{"floor", Floor, Load{Clients: 2, Pairs: 1, Batch: BatchFrames}},
		{"floor, a frame a write, among idle ones", Floor, Load{Clients: 6, Pairs: 1}},
		{"floor, two pairs", Floor, Load{Clients: 4, Pairs: 2, Batch: BatchFrames}},
		{"floor, round trips beside a flow", Floor, Load{Clients: 4, Pairs: 2, Batch: BatchFrames, Echo: true}},
		{"floor, 64 bytes", Floor, Load{Clients: 2, Pairs: 1, Batch: BatchFrames}.WithFrame(64)},
		{"floor, 65550 bytes", Floor, Load{Clients: 2, Pairs: 1, Batch: BatchFrames}.WithFrame(65550)},
		{"old way, 8 clients", Old, Load{Clients: 8, Pairs: 1}},
		{"passed, 65550 bytes", Floor, Load{Clients: 2, Pairs: 1, Batch: BatchFrames, Kinds: passed}.WithFrame(65550)},
		{"paths, 65550 bytes", Floor, Load{Clients: 2, Pairs: 1, Batch: BatchFrames, Kinds: Unconnected + Connected}.WithFrame(65550)},
		{"passed", Floor, Load{Clients: 2, Pairs: 1, Batch: BatchFrames, Kinds: passed}},
		{"passed, round trips", Floor, Load{Clients: 2, Pairs: 1, Kinds: passed, Echo: true}},
		{"to passed", Floor, Load{Clients: 2, Pairs: 1, Batch: BatchFrames, Kinds: Stream + Passed}},
		{"from passed, 9000 bytes", Floor, Load{Clients: 2, Pairs: 1, Batch: BatchFrames, Kinds: Passed + Stream}.WithFrame(9000)},
		{"to path", Floor, Load{Clients: 2, Pairs: 1, Batch: BatchFrames, Kinds: Stream + Unconnected}},
		{"from path", Floor, Load{Clients: 2, Pairs: 1, Batch: BatchFrames, Kinds: Unconnected + Stream}},
		{"to connected", Floor, Load{Clients: 2, Pairs: 1, Batch: BatchFrames, Kinds: Stream + Connected}},
		{"from connected", Floor, Load{Clients: 2, Pairs: 1, Batch: BatchFrames, Kinds: Connected + Stream}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.load.Frames = 20 // however busy the machine is
			res, err := r.Measure(t.Context(), tt.relay, tt.load)
			require.NoError(t, err)
			assert.Positive(t, res.RelayCPUNS)
			assert.Positive(t, res.AnonymousKiB)
			assert.Greater(t, res.ResidentKiB, res.AnonymousKiB)
			assert.Positive(t, res.Switches)
			if tt.load.Echo {
				assert.Positive(t, res.RoundTrips)
				assert.Positive(t, res.RTTP50NS)
				assert.LessOrEqual(t, res.RTTP50NS, res.RTTP99NS)
				assert.Equal(t, tt.load.Pairs > 1, res.Received > 0, "%d frames of flows", res.Received)
				return
			}
			assert.Positive(t, res.Received)
			assert.Zero(t, res.Lost)
			assert.Greater(t, res.Received, int64(2*tt.load.Window), "a window is acknowledged before its sender gives it up")
		})
	}
}

func TestSlots(t *testing.T) {
	r := testRig(t)
	const slots = 5
	res, err := r.Measure(t.Context(), Floor, Load{Clients: 2, Pairs: 1, Batch: BatchFrames, Slots: slots})
	require.NoError(t, err)
	require.Len(t, res.Slots, slots)
	var sum Slot
	for _, s := range res.Slots {
		assert.Positive(t, s.WallNS)
		sum.WallNS += s.WallNS
		sum.RelayCPUNS += s.RelayCPUNS
		sum.Received += s.Received
	}
	assert.Equal(t, Slot{res.WallNS, res.RelayCPUNS, res.Received}, sum, "the slots are the whole measurement")
}

func TestDriveNoticesBadRelays(t *testing.T) {
	r := testRig(t)
	const out = "arrived damaged or out of order"
	const enough = 500 // frames that arrive until the damage has been noticed
	const length = 1514
	const wire = 4 + length // bytes of a frame in wire form
	for _, tt := range []struct {
		name   string
		damage func(buf []byte) []byte // of 100 frames in the middle of the flow
		want   string
	}{
		{"honest", func(buf []byte) []byte { return buf }, ""},
		{"flips a byte of each", func(buf []byte) []byte {
			for i := 0; i < len(buf); i += wire {
				buf[i+4+length/2] ^= 1
			}
			return buf
		}, out},
		{"flips the last byte of the pattern of each", func(buf []byte) []byte {
			for i := wire; i <= len(buf); i += wire {
				buf[i-9] ^= 1
			}
			return buf
		}, out},
		{"repeats one", func(buf []byte) []byte { return append(buf[:wire:wire], buf...) }, out},
		{"swaps two", func(buf []byte) []byte {
			return append(append(append([]byte{}, buf[wire:2*wire]...), buf[:wire]...), buf[2*wire:]...)
		}, out},
		{"loses a byte", func(buf []byte) []byte { return buf[1:] }, "the framing is lost"},
		{"hangs up", func([]byte) []byte { return nil }, "the relay closed a connection"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := Load{Clients: 2, Pairs: 1, Batch: BatchFrames, Frames: enough}
			_, err := r.Drive(t.Context(), damagingRelay(t, tt.damage), l)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, tt.want)
		})
	}
}

// fakeRelay is one in this process.
func fakeRelay(t *testing.T) *Relay {
	t.Helper()
	return &Relay{Socket: filepath.Join(t.TempDir(), "s")}
}

// damagingRelay copies between two clients in this process and passes 100 of the first one's frames through damage. An empty
// result hangs up.
func damagingRelay(t *testing.T, damage func([]byte) []byte) *Relay {
	t.Helper()
	r := fakeRelay(t)
	l, err := net.Listen("unix", r.Socket)
	require.NoError(t, err)
	var copies sync.WaitGroup
	copies.Go(func() {
		a, errA := l.Accept()
		b, errB := l.Accept()
		if errA != nil || errB != nil {
			return
		}
		copies.Go(func() { _, _ = io.Copy(a, b) })
		forwardDamaged(a, b, damage)
		_ = a.Close()
		_ = b.Close()
	})
	t.Cleanup(func() {
		_ = l.Close()
		copies.Wait()
	})
	return r
}

// forwardDamaged copies frames from a to b. The first ones are announcements.
func forwardDamaged(a, b net.Conn, damage func([]byte) []byte) {
	var held []byte
	for count := 0; ; {
		frame, err := readFrame(a)
		if err != nil {
			return
		}
		const kindAt, data = 4 + 14, 2 // see csrc/load.h
		if frame[kindAt] != data {
			_, _ = b.Write(frame)
			continue
		}
		held = append(held, frame...)
		if count++; count == 100 {
			if held = damage(held); held == nil {
				return
			}
		}
		if count >= 100 { // the window is larger, so the sender does not wait for these
			_, _ = b.Write(held)
			held = held[:0]
		}
	}
}

// readFrame reads one frame and returns its wire form.
func readFrame(r io.Reader) ([]byte, error) {
	frame := make([]byte, 4)
	if _, err := io.ReadFull(r, frame); err != nil {
		return nil, err
	}
	frame = append(frame, make([]byte, int(frame[2])<<8|int(frame[3]))...)
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}

func TestDriveNoticesBadDatagrams(t *testing.T) {
	r := testRig(t)
	for _, tt := range []struct {
		name  string
		send  func(frame []byte) [][]byte // in place of the 100th frame of the flow
		want  string
		loses bool
	}{
		{"honest", func(f []byte) [][]byte { return [][]byte{f} }, "", false},
		{"loses one", func([]byte) [][]byte { return nil }, "", true},
		{"flips a byte", func(f []byte) [][]byte { f[len(f)-1] ^= 1; return [][]byte{f} }, "arrived damaged or out of order", false},
		{"repeats one", func(f []byte) [][]byte { return [][]byte{f, f} }, "arrived damaged or out of order", false},
		{"cuts one", func(f []byte) [][]byte { return [][]byte{f[:len(f)-1]} }, "arrived damaged or out of order", false},
		{"lengthens one", func(f []byte) [][]byte { return [][]byte{append(f, 0)} }, "arrived damaged or out of order", false},
		{"sends one that is too long", func([]byte) [][]byte { return [][]byte{make([]byte, 4096)} }, "a datagram of", false},
		{"sends a runt", func([]byte) [][]byte { return [][]byte{{}} }, "a datagram of 0 bytes", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := Load{Clients: 2, Pairs: 1, Batch: BatchFrames, Kinds: Connected + Unconnected, Frames: 500}
			res, err := r.Drive(t.Context(), datagramRelay(t, tt.send), l)
			if tt.want != "" {
				assert.ErrorContains(t, err, tt.want)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.loses, res.Lost > 0, "%d lost", res.Lost)
		})
	}
}

// datagramRelay passes frames between two clients with paths in this process and calls replace for the 100th long one.
func datagramRelay(t *testing.T, replace func(frame []byte) [][]byte) *Relay {
	t.Helper()
	r := fakeRelay(t)
	require.NoError(t, os.MkdirAll(r.Socket+".d/dgram", 0o700))
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: r.Socket + ".d/dgram/sock", Net: "unixgram"})
	require.NoError(t, err)
	var relaying sync.WaitGroup
	relaying.Go(func() {
		clients, count := map[string]*net.UnixAddr{}, 0
		for buf := make([]byte, 2048); ; {
			n, from, err := c.ReadFromUnix(buf)
			if err != nil {
				return
			}
			frame := buf[:n]
			clients[string(frame[6:12])] = from // by source address
			frames := [][]byte{frame}
			if n > 1000 {
				if count++; count == 100 { // the window is larger, so the sender does not wait for it
					frames = replace(slices.Clone(frame))
				}
			}
			if to := clients[string(frame[:6])]; to != nil {
				for _, f := range frames {
					_, _ = c.WriteToUnix(f, to)
				}
			}
		}
	})
	t.Cleanup(func() {
		_ = c.Close()
		relaying.Wait()
	})
	return r
}
