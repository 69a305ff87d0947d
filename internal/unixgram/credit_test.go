// SPDX-License-Identifier: Apache-2.0

//go:build linux

package unixgram

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// shrink gives the shared socket the send buffer of a daemon without privileges.
func (l *lab) shrink(size int) {
	l.t.Helper()
	require.NoError(l.t, unix.SetsockoptInt(l.shared.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, size/2))
	n, err := unix.GetsockoptInt(l.shared.fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
	require.NoError(l.t, err)
	require.Equal(l.t, size, n)
	l.shared.size = size
}

// TestDeafClients: clients of the shared socket that never read leave the others alone, whoever came first.
func TestDeafClients(t *testing.T) {
	for _, tt := range []struct {
		name string
		size int // of the send buffer; 0 = what there is
		deaf int
		late bool
	}{
		{"none, small buffer", 425984, 0, false},
		{"seven", 0, 7, false},
		{"seven, default buffer", 212992, 7, false},
		{"thirty, each fills its share before the next comes", 425984, 30, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, func(_ *lab, o *Options) { o.QueueSize = 512 << 10 })
			if tt.size > 0 {
				l.shrink(tt.size)
			}
			join := func(name string) (*peer, *session) {
				p := l.connected(name)
				p.send([]byte("VFKT"))
				return p, l.session(p.path)
			}
			fill := func(s *session) { // until nothing more goes out
				for i := range 1000 {
					s.link.Deliver(batchOf(testFrame(ethernetLen, i)))
				}
				require.Positive(t, s.link.Stats().Queued)
			}
			var deaf []*session
			for i := range tt.deaf {
				_, s := join(fmt.Sprint("deaf", i))
				if deaf = append(deaf, s); tt.late {
					fill(s)
				}
			}
			p, healthy := join("healthy")
			for _, s := range deaf {
				fill(s)
			}
			const batch = 128 // at most so many are under way
			for i := 0; i < 10*batch; i += batch {
				var frames [][]byte
				for k := range batch {
					frames = append(frames, testFrame(ethernetLen, i+k))
				}
				healthy.link.Deliver(batchOf(frames...))
				for _, want := range frames {
					require.Equal(t, want, p.recv(), "%+v", healthy.link.Stats())
				}
			}
			assert.Zero(t, healthy.link.Stats().DropQueueFull)
			for _, s := range deaf {
				assert.False(t, s.link.Gone())
			}
		})
	}
}

// TestSharesOfUsers: one user's clients, however many, take little from another's.
func TestSharesOfUsers(t *testing.T) {
	s := &shared{size: 8 << 20, users: map[uint32]*user{}, diags: diagnoser{failed: true}}
	used := 0
	for n := range maxUserAccounts { // each takes all that it may
		a, err := s.open(&Target{uid: victim})
		require.NoError(t, err, n)
		limit := a.limit(share(s.size, int(s.accounts.Load())))
		assert.GreaterOrEqual(t, limit, 0)
		a.charge(limit)
		used += limit
	}
	_, err := s.open(&Target{uid: victim})
	require.ErrorIs(t, err, errTooMany)
	assert.EqualValues(t, userClients, s.accounts.Load())
	assert.Less(t, used, s.size*3/4)
	other, err := s.open(&Target{uid: attacker})
	require.NoError(t, err)
	assert.Equal(t, share(s.size, userClients+1), other.limit(share(s.size, int(s.accounts.Load()))))
	s.end(&other)
	assert.EqualValues(t, userClients, s.accounts.Load())
}
