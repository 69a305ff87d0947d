// SPDX-License-Identifier: Apache-2.0

package unixgram

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/mmsg"
)

// relayLen is how many frames are under way at once: a unix socket's queue holds few.
const relayLen = 8

// A relay is two clients, whose frames go from the first one to the second, and a Server whose reader is called by hand.
type relay struct {
	*lab
	from   int // descriptors
	to     int
	sender *mmsg.Sender
	dest   []byte
	wire   frame.Batch
	buf    []byte
}

func newRelay(t testing.TB, connected bool) *relay {
	t.Helper()
	l := newLab(t, func(l *lab, _ *Options) {
		l.noReader = true
		l.onServe = func(s *session) error {
			s.onBatch = func(b frame.Batch) {
				l.mu.Lock()
				to := l.sessions[l.dir+"/b"]
				l.mu.Unlock()
				to.link.Deliver(b)
			}
			return nil
		}
	})
	r := &relay{lab: l, sender: mmsg.NewSender(), buf: make([]byte, 2048)}
	var frames [][]byte
	for i := range relayLen {
		frames = append(frames, testFrame(ethernetLen, i))
	}
	r.wire = batchOf(frames...)
	var err error
	l.rcv, err = mmsg.NewReceiver(true)
	require.NoError(t, err)
	t.Cleanup(func() { l.rcv.Free() })
	a, b := l.either("a", connected), l.either("b", connected)
	onFd(t, a.UnixConn, func(fd int) error { r.from = fd; return nil })
	onFd(t, b.UnixConn, func(fd int) error { r.to = fd; return nil })
	if !connected {
		r.dest = []byte(l.path)
	}
	b.send([]byte("VFKT"))
	a.send([]byte("VFKT"))
	r.serve()
	for _, p := range []*peer{a, b} { // until their sessions run
		c, _ := l.session(p.path).link.(*client)
		require.Eventually(t, func() bool {
			c.dispatch.Lock()
			defer c.dispatch.Unlock()
			return c.handler != nil
		}, patience, time.Millisecond)
	}
	return r
}

// serve is what the reader does.
func (r *relay) serve() {
	n, err := r.rcv.Receive(r.shared.fd)
	if err != nil {
		panic(err)
	}
	r.dispatchSafely(0, n)
}

// send has the first client send, and receive the second one receive.
func (r *relay) send() {
	if n, err := r.sender.Send(r.from, r.dest, r.wire); n != relayLen {
		panic(fmt.Sprint(n, err))
	}
}

func (r *relay) receive() {
	for range relayLen {
		if n, err := unix.Read(r.to, r.buf); n != ethernetLen {
			panic(fmt.Sprint(n, err))
		}
	}
}

// TestNoAllocations: a frame's way from one client to another allocates nothing.
func TestNoAllocations(t *testing.T) {
	for _, connected := range []bool{true, false} {
		t.Run(fmt.Sprintf("connected=%t", connected), func(t *testing.T) {
			r := newRelay(t, connected)
			assert.Zero(t, testing.AllocsPerRun(500, func() {
				r.send()
				r.serve()
				r.receive()
			}))
		})
	}
}

// BenchmarkRelay is the daemon's part of a frame's way from one client on a path to another, by the time of its thread, and
// what it costs that the shared socket sends to the inode.
func BenchmarkRelay(b *testing.B) {
	for _, bb := range []struct {
		name      string
		connected bool
		unpinned  bool
	}{
		{"connected", true, false},
		{"connected, by path", true, true},
		{"unconnected", false, false},
	} {
		b.Run(bb.name, func(b *testing.B) {
			r := newRelay(b, bb.connected)
			if bb.unpinned {
				c, _ := r.session(r.dir + "/b").link.(*client)
				c.pipe.unpin()
			}
			b.ReportAllocs()
			var times []time.Duration
			for b.Loop() {
				r.send()
				began := time.Now()
				r.serve()
				times = append(times, time.Since(began))
				r.receive()
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2])/relayLen, "median-ns/frame")
			b.ReportMetric(float64(times[len(times)/20])/relayLen, "best-ns/frame")
		})
	}
}
