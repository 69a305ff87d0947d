// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/mmsg"
)

// greet says hello and returns the session.
func (p *peer) greet(l *lab) *session {
	p.send([]byte(mmsg.Hello))
	return l.session(p.path)
}

// fill sends to a client that does not read until nothing more goes out.
func (s *session) fill(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		for i := range 100 {
			s.link.Deliver(batchOf(testFrame(ethernetLen, i)))
		}
		return s.link.Stats().Queued > 64<<10
	}, patience, time.Millisecond)
}

// gets sends frames to the client and wants them there.
func (s *session) gets(t *testing.T, p *peer) {
	t.Helper()
	const batch = 64 // at most so many are under way
	for i := 0; i < 10*batch; i += batch {
		var frames [][]byte
		for k := range batch {
			frames = append(frames, testFrame(ethernetLen, i+k))
		}
		s.link.Deliver(batchOf(frames...))
		for _, want := range frames {
			require.Equal(t, want, p.recv(), "%+v", s.link.Stats())
		}
	}
	assert.Zero(t, s.link.Stats().DropQueueFull)
}

// TestDeafClients: connected clients that never read leave the others alone.
func TestDeafClients(t *testing.T) {
	quick := func(_ *lab, o *Options) { o.QueueSize = 512 << 10 }
	t.Run("one after another", func(t *testing.T) {
		l := newLab(t, quick)
		for i := range 12 {
			at := l.current()
			deaf := l.connected(fmt.Sprint("deaf", i)).greet(l)
			l.turned(at)
			deaf.fill(t)
		}
		p := l.connected("healthy")
		p.greet(l).gets(t, p)
	})
	t.Run("connected before the first one spoke", func(t *testing.T) {
		l := newLab(t, quick)
		at := l.current()
		first, second := l.connected("first"), l.connected("second")
		served := first.greet(l)
		l.turned(at)
		guest := second.greet(l)
		guest.gets(t, second)
		guest.fill(t)
		served.gets(t, first)
	})
	t.Run("before it was heard", func(t *testing.T) {
		l := newLab(t, quick)
		deaf, p := l.connected("deaf").greet(l), l.connected("healthy")
		healthy := p.greet(l) // perhaps by the same socket
		deaf.link.Deliver(batchOf(testFrame(ethernetLen, 1)))
		healthy.gets(t, p)
	})
}

// TestIdleSocketsWhileHalted: none is closed then, for its client may not be attached yet.
func TestIdleSocketsWhileHalted(t *testing.T) {
	hasNothingLeft(t)
	l := newLab(t, nil)
	for i := range maxIdle + 3 {
		at := l.current()
		l.either(fmt.Sprint(i), true).greet(l)
		l.turned(at)
	}
	list := l.detach()
	l.stopping.Store(false) // as in the next image
	gone, err := l.Link(list[0].Path, list[0].Link)
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	l = l.next(list[1:], true)
	for _, p := range l.peers {
		if p.path != list[0].Path {
			l.session(p.path).gets(t, p)
		}
	}
}

// TestOrderAcrossATurn: no frame that came by the path's next socket overtakes one that came by the last.
func TestOrderAcrossATurn(t *testing.T) {
	sends := make(chan *peer, 1)
	l := newLab(t, func(made *lab, o *Options) {
		o.Renew = func() (*net.UnixConn, error) {
			(<-sends).send(testFrame(60, 1))
			return made.renew()
		}
	})
	at, p := l.current(), l.unconnected("a")
	sends <- p
	l.connected("b").greet(l)
	l.turned(at)
	p.send(testFrame(60, 2))
	assert.Equal(t, [][]byte{testFrame(60, 1), testFrame(60, 2)}, l.session(p.path).waitFrames(t, 2))
}

// TestPathCannotTurn: without another socket the clients share the one that there is, which is told once.
func TestPathCannotTurn(t *testing.T) {
	l := newLab(t, func(_ *lab, o *Options) {
		o.Renew = func() (*net.UnixConn, error) { return nil, errors.New("no room on the disk") }
	})
	for i := range 3 {
		p := l.connected(fmt.Sprint(i))
		p.greet(l).gets(t, p)
	}
	require.Eventually(t, func() bool { return strings.Count(l.log.String(), "no room on the disk") == 1 }, patience, time.Millisecond)
}

// TestIdleSockets: of those that had the path only some are kept without a client, the last ones.
func TestIdleSockets(t *testing.T) {
	hasNothingLeft(t)
	l := newLab(t, nil)
	stay := l.connected("stay")
	served := stay.greet(l)
	for i := range maxIdle + 5 {
		at := l.current()
		p := l.connected(fmt.Sprint(i))
		s := p.greet(l)
		l.turned(at)
		s.link.Shutdown(link.DrainOne)
		_ = s.waitEnd(t)
		require.NoError(t, p.Close())
	}
	assert.Len(t, l.all(), 1+maxIdle+1)
	served.gets(t, stay)
}
