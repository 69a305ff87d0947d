// SPDX-License-Identifier: Apache-2.0

package unixgram

import (
	"io"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/link"
)

// TestInvitedWhileItSpeaks: a client that is known from an earlier process and sends at the moment that it is invited is one
// client, not two.
func TestInvitedWhileItSpeaks(t *testing.T) {
	var mu sync.Mutex
	served := map[string]int{}
	l := newLab(t, func(l *lab, o *Options) {
		o.Serve = func(k link.Link, path string, uid uint32) error {
			mu.Lock()
			served[path]++
			mu.Unlock()
			return l.serve(k, path, uid)
		}
	})
	const clients = 50
	for i := range clients {
		p := l.unconnected(string(rune('a'+i%26)) + string(rune('a'+i/26)))
		var both sync.WaitGroup
		both.Go(func() { assert.NoError(t, l.Invite(p.path, uint32(os.Geteuid()))) })
		both.Go(func() { p.send(testFrame(60, i)) })
		both.Wait()
		l.session(p.path).waitFrames(t, 1)
	}
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, served, clients)
	for path, n := range served {
		assert.Equal(t, 1, n, path)
	}
}

// TestAdmittedTwice is the same without chance.
func TestAdmittedTwice(t *testing.T) {
	l := newLab(t, func(l *lab, _ *Options) { l.noReader = true })
	p := l.unconnected("c")
	who := sender{uid: uint32(os.Geteuid()), known: true}
	first, err := l.admit(p.path, who)
	require.NoError(t, err)
	second, err := l.admit(p.path, who)
	require.NoError(t, err)
	assert.Same(t, first, second)
	assert.Equal(t, 1, l.served())
	first.end(nil)
	third, err := l.admit(p.path, who)
	require.NoError(t, err)
	assert.NotSame(t, first, third)
}

// TestSlowLookEndsNobody: a client whose path cannot be looked up in time is not taken for one that has gone.
func TestSlowLookEndsNobody(t *testing.T) {
	l := newLab(t, func(l *lab, _ *Options) { l.noReader = true })
	p := l.unconnected("c")
	c, err := l.admit(p.path, sender{uid: uint32(os.Geteuid()), known: true})
	require.NoError(t, err)
	l.look.busy.Add(maxLooks) // the file system does not answer
	assert.NoError(t, c.pipe.check())
	assert.False(t, c.pipe.moved())
	l.look.busy.Add(-maxLooks)
	assert.NoError(t, c.pipe.check())
	require.NoError(t, os.Remove(p.path))
	assert.ErrorIs(t, c.pipe.check(), io.EOF)
}
