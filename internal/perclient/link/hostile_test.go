// SPDX-License-Identifier: Apache-2.0

package link

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

func TestLastFramesOfAClientThatLeft(t *testing.T) {
	daemon, client := pair(t)
	_, err := client.Write(numbered(0, 50, 1514).Bytes())
	require.NoError(t, err)
	require.NoError(t, client.Close())
	s, err := NewStream(daemon, StreamOptions{})
	require.NoError(t, err)
	s.Deliver(numbered(0, 1, 1514)) // another client's frame is quicker than our reader, and fails
	var c collector
	assert.ErrorIs(t, s.Run(&c), io.EOF)
	assert.Len(t, c.got(), 50)
	require.NoError(t, s.Close())
}

// panicking is a Handler with a bug.
type panicking struct{}

func (panicking) Frames(frame.Batch) { panic("made by the test") }

func TestDrainAfterAPanicWithAFullBuffer(t *testing.T) { inTime(t, drainsAfterAPanic) }

// drainsAfterAPanic is false if the client had no processor while the daemon drained.
func drainsAfterAPanic(t *testing.T) bool {
	daemon, client := pair(t)
	s, err := NewStream(daemon, StreamOptions{})
	require.NoError(t, err)
	require.NoError(t, client.SetWriteBuffer(1<<20))
	wrote := make(chan error, 1)
	batch := numbered(0, 2*readBufLen/1518, 1514)
	go func() {
		_, err := client.Write(batch.Bytes())
		wrote <- err
	}()
	time.Sleep(50 * time.Millisecond) // more than a buffer is there
	assert.Panics(t, func() { _ = s.Run(panicking{}) })
	s.Drain()
	err = <-wrote // none: everything was read
	require.NoError(t, s.Close())
	return err == nil
}

// TestDrainAfterItsTime is a process that was stopped, or had no processor, until the time for the drain was over.
func TestDrainAfterItsTime(t *testing.T) {
	daemon, client := pair(t)
	s, err := NewStream(daemon, StreamOptions{})
	require.NoError(t, err)
	_, err = client.Write(numbered(0, 50, 1514).Bytes())
	require.NoError(t, err)
	s.Shutdown(DrainSchedule{Hard: time.Nanosecond})
	require.NoError(t, daemon.SetReadDeadline(time.Unix(1, 0)))
	_ = s.Run(&collector{})
	require.NoError(t, s.Close())
	_, err = client.Read(make([]byte, 1))
	assert.ErrorIs(t, err, io.EOF, "what was there was read, so this is no reset")
}
