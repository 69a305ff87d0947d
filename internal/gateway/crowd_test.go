// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// TestCrowd: a guest's first connections have large buffers, those after them small ones.
func TestCrowd(t *testing.T) {
	n := start(t, Config{}, tuning{})
	g := newIPGuest(t, n, mac1, guestIP)
	for _, receive := range []int64{tcpBuffer, crowdBuffer} {
		guest, host := connect(t, g)
		local := guest.LocalAddr().(*net.TCPAddr).AddrPort()
		ep, ok := n.gw.engine.stack.FindTransportEndpoint(header.IPv4ProtocolNumber, header.TCPProtocolNumber, stack.TransportEndpointID{
			LocalPort: host.LocalAddr().(*net.TCPAddr).AddrPort().Port(), LocalAddress: tcpip.AddrFrom4(aliasIP.As4()),
			RemotePort: local.Port(), RemoteAddress: tcpip.AddrFrom4(guestIP.As4()),
		}, nicID).(tcpip.Endpoint)
		require.True(t, ok)
		assert.Eventually(t, func() bool {
			o := ep.SocketOptions()
			return o.GetReceiveBufferSize() == receive && o.GetSendBufferSize() == crowdBuffer
		}, patience, time.Millisecond)
		for i := range crowd { // the second time they are there already
			n.gw.engine.flows.add(uint64(g.port.(guestPort).ID()), someKey(protoTCP, i))
		}
	}
}
