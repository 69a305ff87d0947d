// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// FuzzReadMessage: whatever comes on attach and adopt, in whatever pieces and with whatever descriptors, is a line with at most
// one descriptor, an error to tell, or the connection's end; and no descriptor is left behind.
func FuzzReadMessage(f *testing.F) {
	f.Add([]byte(`{"version":1}`+"\n"), uint8(200), uint8(0), uint8(0))
	f.Add([]byte("\x00"), uint8(1), uint8(1), uint8(0))
	f.Add([]byte{}, uint8(1), uint8(0), uint8(0))
	f.Add([]byte("ab\ncd\n"), uint8(1), uint8(2), uint8(1))
	f.Add(bytes.Repeat([]byte("x"), 200), uint8(7), uint8(1), uint8(3))
	f.Fuzz(func(t *testing.T, in []byte, piece, fds, behind uint8) {
		const limit = 128
		if len(in) > 1024 {
			return // finds nothing more
		}
		ours, theirs := connPair(t)
		require.NoError(t, ours.SetDeadline(time.Now().Add(20*time.Second)))
		null, err := os.Open(os.DevNull)
		require.NoError(t, err)
		defer null.Close()
		n := int(fds % 5)
		size := max(int(piece), 1+len(in)/16) // what the system queues is bounded: by writes, or 8 KiB (net.local.stream.sendspace)
		for i := 0; i < len(in); i += size {
			var oob []byte
			if i/size == int(behind%4) && n > 0 {
				same := make([]int, n)
				for j := range same {
					same[j] = int(null.Fd())
				}
				oob = unix.UnixRights(same...)
			}
			_, _, err := theirs.WriteMsgUnix(in[i:min(i+size, len(in))], oob, nil)
			require.NoError(t, err)
		}
		require.NoError(t, theirs.Close())
		m, err := ReadMessage(ours, limit)
		defer func() { m.Close() }()
		require.LessOrEqual(t, len(m.Line), limit)
		if err != nil {
			e, ok := errors.AsType[*Error](err)
			require.True(t, ok || errors.Is(err, io.EOF) && len(in) == 0, "%v", err)
			if ok {
				require.NotEmpty(t, e.Code)
			}
			require.Equal(t, None, m.FD, "a descriptor with an error is closed")
			return
		}
		require.NotContains(t, string(m.Line), "\n")
		require.True(t, bytes.HasPrefix(in, m.Line))
		if m.FD != None {
			require.Equal(t, 1, n)
		}
	})
}
