// SPDX-License-Identifier: Apache-2.0

package fakeguest

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// TestMain checks that no test leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plug plugs a guest into l for the length of the test.
func plug(t *testing.T, l Link, o Options) *Guest {
	t.Helper()
	g, err := New(l, o)
	require.NoError(t, err)
	t.Cleanup(g.Close)
	return g
}

// TestBadStream sends what a daemon must never send: the guest ends with an error that tells what it was.
func TestBadStream(t *testing.T) {
	tests := []struct {
		name string
		sent []byte
		want error
	}{
		{"length 0", []byte{0, 0, 0, 0}, ErrBadFrame},
		{"length 13", append([]byte{0, 0, 0, 13}, make([]byte, 13)...), ErrBadFrame},
		{"length 32769", append([]byte{0, 0, 0x80, 1}, make([]byte, 32769)...), ErrBadFrame},
		{"half a prefix", []byte{0, 0}, io.ErrUnexpectedEOF},
		{"half a frame", []byte{0, 0, 0, 20, 1, 2, 3}, io.ErrUnexpectedEOF},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c1, c2 := net.Pipe()
			g := plug(t, StreamLink(c1), Options{})
			_, err := c2.Write(tt.sent)
			_ = err // the guest may have hung up
			require.NoError(t, c2.Close())
			<-g.Done()
			assert.ErrorIs(t, g.Err(), tt.want)
		})
	}
}
