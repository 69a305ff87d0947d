// SPDX-License-Identifier: Apache-2.0

package link

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestBlockedClientIsRefusedBeforeTheEnd is QEMU's case: a client that found its buffer full and had no processor since. At
// the end of the drain its writes must fail at once, for it to drop its frames, while its connection has not ended yet.
func TestBlockedClientIsRefusedBeforeTheEnd(t *testing.T) { inTime(t, blockedClientIsRefused) }

// blockedClientIsRefused is false if the client had no processor when it should have noticed.
func blockedClientIsRefused(t *testing.T) (noticed bool) {
	daemon, client := pair(t)
	rc, err := client.SyscallConn()
	require.NoError(t, err)
	write := func(b []byte) (err error) {
		require.NoError(t, rc.Control(func(fd uintptr) { _, err = unix.Write(int(fd), b) }))
		return err
	}
	s, err := NewStream(daemon, StreamOptions{})
	require.NoError(t, err)
	whole := numbered(0, 1, 1514).Bytes()
	for err = write(whole); err == nil; err = write(whole) {
	}
	require.ErrorIs(t, err, unix.EAGAIN)

	s.Shutdown(DrainStop)
	r := run(t, s)
	refused := time.Time{}
	require.Eventually(t, func() bool {
		err := write(nil) // tells whether a write would be refused, and writes nothing
		if err == nil {
			return false
		}
		refused = time.Now()
		return assert.ErrorIs(t, err, unix.EPIPE)
	}, 20*time.Second, time.Millisecond)
	assert.ErrorIs(t, r.wait(t), ErrShutdown)
	noticed = time.Since(refused) > DrainStop.Settle-20*time.Millisecond
	require.NoError(t, s.Close())
	n, err := client.Read(make([]byte, 1))
	assert.Zero(t, n)
	assert.NotErrorIs(t, err, unix.ECONNRESET)
	return noticed
}
