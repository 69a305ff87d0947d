// SPDX-License-Identifier: Apache-2.0

package unixgram

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// FuzzDiagAnswers: whatever the kernel is said to answer about sockets, nothing but what lies in the answer is looked at.
func FuzzDiagAnswers(f *testing.F) {
	answer := func(kind, flags uint16, seq uint32, body []byte) []byte {
		e := binary.NativeEndian
		b := e.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
		b = e.AppendUint16(b, kind)
		b = e.AppendUint16(b, flags)
		b = e.AppendUint32(b, seq)
		return append(append(b, 0, 0, 0, 0), body...)
	}
	one := append(make([]byte, answerLen), 12, 0, attrQueue, 0, 5, 0, 0, 0, 6, 0, 0, 0)
	f.Add(answer(diagByFamily, 0, 7, one))
	f.Add(append(answer(diagByFamily, unix.NLM_F_MULTI, 7, one), answer(unix.NLMSG_DONE, 0, 7, nil)...))
	f.Add(append(answer(diagByFamily, unix.NLM_F_MULTI, 6, one), answer(unix.NLMSG_ERROR, 0, 7, make([]byte, 4))...))
	f.Add(answer(diagByFamily, 0, 7, one)[:20])
	f.Add([]byte{17, 0, 0, 0, 20, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) == 0 || len(in) > 32<<10 {
			return
		}
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, 0)
		require.NoError(t, err)
		defer func() { _, _ = unix.Close(fds[0]), unix.Close(fds[1]) }()
		_, err = unix.Write(fds[1], in)
		require.NoError(t, err)
		d := table{fd: fds[0], buf: make([]byte, diagBufLen), seq: 7}
		n := 0
		d.answers(func(head, attrs []byte) {
			n += len(head) + len(attrs)
			require.Len(t, head, answerLen)
			for _, kind := range []uint16{attrVFS, attrQueue} {
				require.LessOrEqual(t, len(attr(attrs, kind)), len(attrs))
			}
		})
		require.LessOrEqual(t, n, len(in))
		require.True(t, d.answers(func(_, _ []byte) { t.Error("an answer out of nothing") }), "the end of it")
	})
}
