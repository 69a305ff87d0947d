// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/mmsg"
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
	l.current().rcv, err = mmsg.NewReceiver(true)
	require.NoError(t, err)
	t.Cleanup(l.current().release)
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
	sh := r.sockets[0] // as long as no reader runs
	n, err := sh.rcv.Receive(sh.fd)
	if err != nil {
		panic(err)
	}
	sh.dispatch(n)
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
