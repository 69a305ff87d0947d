// SPDX-License-Identifier: Apache-2.0

package passfd

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// TestGiverConnectsToAService: the user that has handed a socket over connects it to a service, which must not take the frames
// for messages of root.
func TestGiverConnectsToAService(t *testing.T) {
	vnettest.NeedRoot(t)
	dir := vnettest.ShortDir(t)
	service := filepath.Join(dir, "notify")
	in, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(in)
	require.NoError(t, unix.Bind(in, &unix.SockaddrUnix{Name: service}))
	require.NoError(t, unix.SetsockoptInt(in, unix.SOL_SOCKET, unix.SO_PASSCRED, 1))

	s := NewServer(Options{})
	defer s.Stop()
	for _, giver := range []hostfs.Peer{{Known: true, UID: 4001, GID: 4002, PID: 1}, {Known: true}, {}} {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Connect(fd, &unix.SockaddrUnix{Name: service}))
		v := link.State{Socket: link.Descriptor{FD: fd}}
		l, err := s.Link(&perclient.Detached{Client: perclient.Client{Via: viaAdopt, Peer: giver}, Link: v})
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- l.Run(nil) }()
		l.Deliver(frame.NewBatch(frame.Append(nil, ethernet(60)), 1))
		buf, oob := make([]byte, 100), make([]byte, 100)
		require.NoError(t, unix.SetsockoptTimeval(in, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(patience / time.Second)}))
		_, n, _, _, err := unix.Recvmsg(in, buf, oob, 0)
		require.NoError(t, err)
		list, err := unix.ParseSocketControlMessage(oob[:n])
		require.NoError(t, err)
		c, err := unix.ParseUnixCredentials(&list[0])
		require.NoError(t, err)
		const unknown = 65534
		want := unix.Ucred{Pid: int32(os.Getpid()), Uid: giver.UID, Gid: giver.GID}
		if !giver.Known {
			want.Uid, want.Gid = unknown, unknown
		}
		assert.Equal(t, want, *c)
		l.Shutdown(link.DrainStop)
		require.ErrorIs(t, <-done, link.ErrShutdown)
		require.NoError(t, l.Close())
	}
}
