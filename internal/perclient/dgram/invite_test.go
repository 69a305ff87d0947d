// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAdmittedTwice: a client that is known from an earlier process and sends at the moment that it is invited is one client,
// not two.
func TestAdmittedTwice(t *testing.T) {
	l := newLab(t, func(l *lab, _ *Options) { l.noReader = true })
	p := l.unconnected("c")
	require.NoError(t, l.Invite(p.path))
	first := l.clients[p.path]
	who := sender{uid: uint32(os.Geteuid()), known: true}
	second, err := l.admit(p.path, who, l.current())
	require.NoError(t, err)
	assert.Same(t, first, second)
	assert.Equal(t, 1, l.served())
	first.end(nil)
	third, err := l.admit(p.path, who, l.current())
	require.NoError(t, err)
	assert.NotSame(t, first, third)
}

// TestSlowLookEndsNobody: a client whose path cannot be looked up in time is not taken for one that has gone.
func TestSlowLookEndsNobody(t *testing.T) {
	l := newLab(t, func(l *lab, _ *Options) { l.noReader = true })
	p := l.unconnected("c")
	c, err := l.admit(p.path, sender{uid: uint32(os.Geteuid()), known: true}, l.current())
	require.NoError(t, err)
	l.look.busy.Add(maxLooks) // the file system does not answer
	assert.NoError(t, c.pipe.check())
	l.look.busy.Add(-maxLooks)
	assert.NoError(t, c.pipe.check())
	require.NoError(t, os.Remove(p.path))
	assert.ErrorIs(t, c.pipe.check(), io.EOF)
}
