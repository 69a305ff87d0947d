// SPDX-License-Identifier: Apache-2.0

package mmsg

import (
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

const (
	// canSendNow: a send does not wait even where the descriptor would.
	canSendNow = true
	// longestPath is what package unix takes; one byte more is in TestLongestName.
	longestPath = 107

	// takesNoMore is the error of a datagram for a peer that did SHUT_RD.
	takesNoMore = unix.EPIPE
	// noPeer is what a send says once it was told that the peer has gone.
	noPeer = unix.ENOTCONN
)

// otherNames are names that only Linux has, written as package unix does.
var otherNames = []string{"@abstract"}

// TestOddNames are a path that fills sun_path, for which Linux returns a length above the size of the structure since no
// zero is at the end, and an abstract name with zeros in it.
func TestOddNames(t *testing.T) {
	dir := t.TempDir()
	here := dir + "/s"
	shared := bound(t, here)
	for title, name := range map[string]string{
		"longest path":          dir + "/" + strings.Repeat("y", maxPath-len(dir)-1),
		"abstract with zeros":   "\x00mmsg\x00test\x00",
		"longest abstract name": "\x00" + strings.Repeat("z", maxPath-1),
	} {
		t.Run(title, func(t *testing.T) {
			client := bound(t, "")
			var a sockaddr
			require.NoError(t, a.set([]byte(name)))
			_, _, errno := unix.RawSyscall(unix.SYS_BIND, uintptr(client), uintptr(unsafe.Pointer(&a.raw)), uintptr(a.len))
			require.Zero(t, errno)
			if name[0] != 0 {
				defer os.Remove(name)
			}
			batch, want := batchOf(60, 61)
			_, err := send(client, []byte(here), batch, nil)
			require.NoError(t, err)
			r := ways["the system's best"].receiver(t, true)
			n, err := r.Receive(shared)
			require.NoError(t, err)
			for i := range n {
				assert.Equal(t, name, string(r.Name(i)))
			}
			_, err = send(shared, r.Name(0), batch, nil)
			require.NoError(t, err)
			equalFrames(t, want, ways["plain"].readAll(t, client))
		})
	}
}

// TestSendAs: the receiver is told the user that was named, and our process.
func TestSendAs(t *testing.T) {
	vnettest.NeedRoot(t)
	a, b := socketPair(t)
	require.NoError(t, unix.SetsockoptInt(b, unix.SOL_SOCKET, unix.SO_PASSCRED, 1))
	r := ways["the system's best"].receiver(t, true)
	s := NewSender()
	require.True(t, s.As(4001, 4002))
	for _, c := range []struct {
		s   *Sender
		uid uint32
	}{{s, 4001}, {NewSender(), 0}} {
		for _, lens := range [][]int{{60}, {60, 61, 1514}} {
			batch, want := batchOf(lens...)
			n, err := c.s.Send(a, nil, batch)
			require.NoError(t, err)
			require.Equal(t, len(lens), n)
			n, err = r.Receive(b)
			require.NoError(t, err)
			require.Equal(t, len(lens), n)
			for i := range n {
				pid, uid, ok := r.Sender(i)
				assert.True(t, ok)
				assert.Equal(t, os.Getpid(), pid)
				assert.Equal(t, c.uid, uid)
			}
			got, _, _ := r.Pack(0, n)
			assert.Equal(t, want, frames(t, got))
		}
	}
	batch, _ := batchOf(60, 61)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		_, _ = s.Send(a, nil, batch)
		_, _ = r.Receive(b)
	}))
}

// TestFullFramesAreNotMoved: the slots here are as long as a full frame, those of recvmsg_x hold the longest.
func TestFullFramesAreNotMoved(t *testing.T) {
	a, b := socketPair(t)
	write(t, a, repeat(8, frame.MaxEthernetLen)...)
	r, err := NewReceiver(false)
	require.NoError(t, err)
	defer r.Free()
	n, err := r.Receive(b)
	require.NoError(t, err)
	last, _ := r.Msg(n - 1)
	batch, _, _ := r.Pack(0, n)
	packed := batch.Bytes()
	assert.Same(t, &last[0], &packed[len(packed)-len(last)])
}
