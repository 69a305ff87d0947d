// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// mesh passes a frame from every client to every other one. The first ones may be lost, while interfaces are starting.
func mesh(t *testing.T, clients []*client) {
	t.Helper()
	for _, from := range clients {
		for _, to := range clients {
			if from != to {
				from.reaches(to)
			}
		}
	}
}

// reaches sends a frame to another client until it arrives.
func (c *client) reaches(to *client) {
	c.t.Helper()
	word := fmt.Sprintf("%d to %d at %d", c.mac, to.mac, time.Now().UnixNano())
	for range 400 {
		c.send(to.mac, word)
		if to.hears(word, 50*time.Millisecond) {
			return
		}
	}
	require.Fail(c.t, "frames do not arrive", "from %d to %d", c.mac, to.mac)
}

// hears reads frames until one has payload, and reports false when none came for a while.
func (c *client) hears(payload string, wait time.Duration) bool {
	c.t.Helper()
	defer func() { require.NoError(c.t, c.SetDeadline(time.Now().Add(patience))) }()
	for {
		require.NoError(c.t, c.SetReadDeadline(time.Now().Add(wait)))
		head := make([]byte, frame.PrefixLen)
		n, err := io.ReadFull(c, head)
		if errors.Is(err, os.ErrDeadlineExceeded) && n == 0 {
			return false
		}
		require.NoError(c.t, c.SetReadDeadline(time.Now().Add(patience)))
		if errors.Is(err, os.ErrDeadlineExceeded) { // in the middle of a frame
			_, err = io.ReadFull(c, head[n:])
		}
		require.NoError(c.t, err)
		f := make([]byte, int(head[2])<<8|int(head[3]))
		_, err = io.ReadFull(c, f)
		require.NoError(c.t, err)
		if string(f[frame.MinLen:]) == payload {
			return true
		}
	}
}
