// SPDX-License-Identifier: Apache-2.0

package vnettest

import (
	"testing"

	"github.com/socket-vmnet2/socket_vmnet2/internal/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// Attach plugs a guest into a port of n. The end of the test closes it.
func Attach(tb testing.TB, n vnet.Network, o fakeguest.Options) *fakeguest.Guest {
	tb.Helper()
	g, err := fakeguest.Attach(tb.Context(), n, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(g.Close)
	return g
}

// Dial connects a guest to the stream socket of a daemon that may still be starting. The end of the test closes it.
func Dial(tb testing.TB, path string, o fakeguest.Options) *fakeguest.Guest {
	tb.Helper()
	g, err := fakeguest.Dial(path, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(g.Close)
	return g
}
