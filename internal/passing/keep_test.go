// SPDX-License-Identifier: Apache-2.0

package passing

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/passing/client"
	"github.com/socket-vmnet2/socket_vmnet2/internal/passing/proto"
)

// keptEnd is the number of the socket that the daemon keeps for its only client, 0 if it keeps none. Commands do not get it: it
// would keep the client's end open there.
func (r *rig) keptEnd(t *testing.T) uint64 {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for m := range r.members {
		if !m.owed && m.theirs != proto.None {
			flags, err := unix.FcntlInt(uintptr(m.theirs), unix.F_GETFD, 0)
			require.NoError(t, err)
			assert.Equal(t, unix.FD_CLOEXEC, flags)
			return inodeOf(m.theirs)
		}
	}
	return 0
}

// TestPassedEndIsKept: until the client is known to have its end, that is more than a message in a queue.
func TestPassedEndIsKept(t *testing.T) {
	for _, c := range []struct {
		name  string
		keep  time.Duration
		letGo func(t *testing.T, r *rig, a *client.Attached)
	}{
		{"first frame", time.Hour, func(t *testing.T, _ *rig, a *client.Attached) {
			t.Helper()
			exchange(t, a.File, proto.Stream)
		}},
		{"end of the lifeline", time.Hour, func(t *testing.T, _ *rig, a *client.Attached) {
			t.Helper()
			require.NoError(t, a.Lifeline.Close())
		}},
		{"end of the session", time.Hour, func(_ *testing.T, r *rig, _ *client.Attached) { r.clients.stop() }},
		{"time", time.Nanosecond, nil},
		{"first frame after an upgrade", time.Hour, func(t *testing.T, r *rig, a *client.Attached) {
			t.Helper()
			end := r.keptEnd(t)
			r.upgrade(t)
			assert.Equal(t, end, r.keptEnd(t), "the next image has it")
			exchange(t, a.File, proto.Stream)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, func(r *rig) { r.watch.every, r.times.keep = time.Millisecond, c.keep })
			a := r.attach(t, proto.Request{Transport: proto.Stream})
			if c.letGo != nil {
				end := inodeOf(int(a.File.Fd()))
				require.Eventually(t, func() bool { return r.keptEnd(t) == end }, patience, time.Millisecond)
				c.letGo(t, r, a)
			}
			require.Eventually(t, func() bool { return r.keptEnd(t) == 0 }, patience, time.Millisecond)
		})
	}
}

// A goneLink says that its client has gone.
type goneLink struct{ link.Link }

func (goneLink) Gone() bool { return true }

// TestGoneIsAsked: the link is asked.
func TestGoneIsAsked(t *testing.T) {
	for _, transport := range []proto.Transport{proto.Datagram, proto.Stream} {
		r := newRig(t, func(r *rig) { r.watch.every = time.Hour })
		r.attach(t, proto.Request{Transport: transport})
		x := r.clients.session(t, 0)
		asked := r.watch.add(x, &member{conn: &conn{srv: r.Server}, link: goneLink{x.link}, request: proto.Request{Transport: transport}, theirs: proto.None})
		assert.Equal(t, transport == proto.Datagram, r.watch.examine(asked), transport)
		if transport == proto.Datagram {
			require.ErrorIs(t, x.ended(t), errPeerGone)
		} // else its reader is told, after the last frames
	}
}

// inodeOf is the number of the socket fd, 0 if it has none.
func inodeOf(fd int) uint64 {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0
	}
	return st.Ino
}
