// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

// TestPortIdentity: a port has an identity, and gives its identity back. A client has the same one each time.
func TestPortIdentity(t *testing.T) {
	n := start(t, Options{})
	attach := func(o network.PortOptions) network.Port {
		t.Helper()
		p, err := n.Attach(t.Context(), o, discard{})
		require.NoError(t, err)
		return p
	}
	id := func(p network.Port) string { return p.Info().InterfaceID }
	asked, a, twin, one := attach(network.PortOptions{InterfaceID: network.ID{1}}), attach(network.PortOptions{ID: "a"}), attach(network.PortOptions{ID: "a"}), attach(network.PortOptions{})
	assert.Equal(t, "01000000-0000-0000-0000-000000000000", id(asked))
	assert.Equal(t, network.MACOf(network.ID{1}), asked.Info().MAC)
	for name, taken := range map[string]network.ID{"another port's": {1}, "the gateway's": n.plan.ID} {
		_, err := n.Attach(t.Context(), network.PortOptions{InterfaceID: taken}, discard{})
		require.ErrorIs(t, err, network.ErrIDInUse, name)
	}
	assert.Len(t, map[string]bool{id(asked): true, id(a): true, id(twin): true, id(one): true}, 4)
	for _, p := range []network.Port{asked, a, one} {
		require.NoError(t, p.Close())
	}
	assert.Equal(t, id(asked), id(attach(network.PortOptions{InterfaceID: network.ID{1}})))
	assert.Equal(t, id(a), id(attach(network.PortOptions{ID: "a"})), "the same client has the same one again")
	assert.Equal(t, id(one), id(attach(network.PortOptions{})), "the first of the row")
}

// discard is a sink that looks at no frame.
type discard struct{}

func (discard) Deliver(frame.Batch) {}
func (discard) MaxFrame() int       { return frame.MaxLen }
