// SPDX-License-Identifier: Apache-2.0

package link

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// counter is a Handler that counts.
type counter struct{ frames int }

func (c *counter) Frames(b frame.Batch) { c.frames += b.Len() }

// TestReadAllocatesNothing: neither reading, nor a frame that is read in two parts, nor taking and giving back the buffer
// allocates.
func TestReadAllocatesNothing(t *testing.T) {
	daemon, client := pair(t)
	s, err := NewStream(daemon, StreamOptions{})
	require.NoError(t, err)
	defer func() { _ = s.Close() }()
	wire := numbered(0, 32, 1514).Bytes()
	h := &counter{}
	half := len(wire)/2 + 1
	require.NotZero(t, half%(len(wire)/32), "a frame is cut")
	rounds := 0
	relay := func() {
		rounds++
		for _, part := range [][]byte{wire[:half], wire[half:]} {
			if _, err := client.Write(part); err != nil {
				panic(err)
			}
			for again := false; !again; {
				if again, err = s.readOnce(s.fd, h); err != nil {
					panic(err)
				}
			}
		}
		s.release()
	}
	relay()
	assert.Zero(t, testing.AllocsPerRun(200, relay))
	assert.Equal(t, 32*rounds, h.frames)
}
