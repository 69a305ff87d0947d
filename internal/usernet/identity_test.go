// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ifid"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

func TestIdentities(t *testing.T) {
	var s identities
	space, wanted := ifid.New(), ifid.New()
	s.init(space)
	take := func(o vnet.PortOptions) ifid.ID {
		t.Helper()
		id, err := s.take(o)
		require.NoError(t, err)
		return id
	}
	asked := take(vnet.PortOptions{ID: "a", InterfaceID: wanted})
	assert.Equal(t, wanted, asked)
	for name, taken := range map[string]ifid.ID{"another port's": wanted, "the gateway's": space} {
		_, err := s.take(vnet.PortOptions{InterfaceID: taken})
		require.ErrorIs(t, err, vnet.ErrIDInUse, name)
	}
	a, twin, one, two := take(vnet.PortOptions{ID: "a"}), take(vnet.PortOptions{ID: "a"}), take(vnet.PortOptions{}), take(vnet.PortOptions{})
	assert.Len(t, map[ifid.ID]bool{asked: true, a: true, twin: true, one: true, two: true}, 5)
	for _, id := range []ifid.ID{asked, a, one} {
		s.free(id)
	}
	assert.Equal(t, wanted, take(vnet.PortOptions{InterfaceID: wanted}))
	assert.Equal(t, a, take(vnet.PortOptions{ID: "a"}), "the same client has the same one again")
	assert.Equal(t, one, take(vnet.PortOptions{}), "the first of the row")
}

// TestPortIdentity: a port tells who it is, and gives its identity back.
func TestPortIdentity(t *testing.T) {
	n, err := New(Options{Mode: vnet.ModeShared})
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close()) }()
	for range 2 {
		p, err := n.Attach(t.Context(), vnet.PortOptions{Name: "x", InterfaceID: ifid.ID{1}}, discard{})
		require.NoError(t, err)
		assert.Equal(t, "01000000-0000-0000-0000-000000000000", p.Info().InterfaceID)
		assert.Equal(t, ifid.MAC(ifid.ID{1}), p.Info().MAC)
		_, err = n.Attach(t.Context(), vnet.PortOptions{Name: "y", InterfaceID: ifid.ID{1}}, discard{})
		require.ErrorIs(t, err, vnet.ErrIDInUse)
		require.NoError(t, p.Close())
	}
}

// discard is a sink for whose frames nobody looks.
type discard struct{}

func (discard) Deliver(frame.Batch) {}
func (discard) MaxFrame() int       { return frame.MaxLen }
