// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
)

// TestInvitedTwice: a client that is known from an earlier process and sends, or is invited again, is one client, not two.
func TestInvitedTwice(t *testing.T) {
	l := newLab(t, func(l *lab, _ *Options) { l.noReader = true })
	p := l.unconnected("c")
	require.NoError(t, l.Invite(p.path))
	s := l.session(p.path)
	require.NoError(t, l.Invite(p.path))
	l.Run()
	p.send(testFrame(60, 1))
	s.waitFrames(t, 1)
	assert.Equal(t, 1, l.served())
	s.link.Shutdown(link.DrainOne)
	require.ErrorIs(t, s.waitEnd(t), link.ErrShutdown)
	require.NoError(t, l.Invite(p.path))
	l.session(p.path, s)
	require.ErrorContains(t, l.Invite(p.path+"2"), "cannot be found")
	if !replyOnly {
		q := l.unconnected("d")
		bindAt(t, l.dir+"/elsewhere")
		connectFd(t, q.UnixConn, l.dir+"/elsewhere")
		require.ErrorContains(t, l.Invite(q.path), "start it again")
	}
}

// TestSlowLooks: file systems that do not answer hold up no client that is there, and end none; new ones have to wait for their turn.
func TestSlowLooks(t *testing.T) {
	l := newLab(t, nil)
	p, s := l.joined("c", false)
	c, _ := s.link.(*client)
	require.True(t, c.looking.CompareAndSwap(false, true)) // a look that does not end
	l.looks.Add(maxLooks)
	require.NoError(t, os.Rename(p.path, p.path+"2"))
	c.Check()
	q := l.unconnected("d")
	q.send(testFrame(60, 2))
	l.dropped(slow, 1)
	p.send(testFrame(60, 3))
	s.waitFrames(t, 2)
	l.looks.Add(-maxLooks)
	q.send(testFrame(60, 4))
	l.session(q.path).waitFrames(t, 1)
	c.looking.Store(false)
	c.Check()
	require.Error(t, s.waitEnd(t))
	l.looks.Add(1)
	began := time.Now()
	l.Halt()
	assert.GreaterOrEqual(t, time.Since(began), lookTime)
	l.looks.Add(-1)
}
