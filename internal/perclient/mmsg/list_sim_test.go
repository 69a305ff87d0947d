// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim && !darwin

package mmsg

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/darwinapi"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/ffi"
	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

// The simulator has macOS's calls, so that macOS's way can be tested here.
func init() {
	ways["recvmsg_x and sendmsg_x"] = way{
		receive: func(names bool) (*Receiver, error) {
			if names {
				return nil, assert.AnError
			}
			return newList()
		},
		send: sendList, prepare: simulate,
	}
}

func simulate(t testing.TB) {
	t.Helper()
	lib := vmnetsim.Library(t, vmnetsim.Full)
	dir := t.TempDir()
	c, err := vmnetsim.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	_, err = ffi.OpenSimulator(lib, dir) // so that it looks at this control file
	require.NoError(t, err)
	require.NoError(t, darwinapi.UseSimulator(lib))
}
