// SPDX-License-Identifier: Apache-2.0

package fakeguest

import (
	"net"
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBadDatagrams sends what a daemon must never send: the guest ends with an error.
func TestBadDatagrams(t *testing.T) {
	for n, bad := range map[int]bool{0: true, 13: true, 14: false, MaxDatagramLen: false, MaxDatagramLen + 1: true, 70000: true} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_DGRAM, 0)
			require.NoError(t, err)
			var ends [2]*net.UnixConn
			for i, fd := range fds {
				f := os.NewFile(uintptr(fd), "pair")
				c, err := net.FileConn(f)
				require.NoError(t, err)
				require.NoError(t, f.Close())
				ends[i] = c.(*net.UnixConn)
				t.Cleanup(func() { _ = c.Close() })
			}
			require.NoError(t, ends[1].SetWriteBuffer(vfkitSendBuffer)) // macOS's own is 2 KiB
			link, err := DatagramLink(ends[0])
			require.NoError(t, err)
			g := plug(t, link, Options{Timeout: patience})
			l := g.Listen(nil)
			_, err = ends[1].Write(make([]byte, n))
			require.NoError(t, err)
			f, err := l.Next(patience)
			if bad {
				require.ErrorIs(t, err, ErrBadFrame)
				return
			}
			require.NoError(t, err)
			assert.Len(t, f, n)
		})
	}
}
