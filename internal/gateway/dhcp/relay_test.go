// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"net"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// between is the MAC address of the relay or bridge in front of the clients of these tests, which is behind port 7.
var between = mac(700)

// relayed is what a relay at 192.168.105.70 does to a message.
func relayed(d *dhcpv4.DHCPv4) {
	d.GatewayIPAddr, d.HopCount = net.IPv4(192, 168, 105, 70), 1
	d.UpdateOption(dhcpv4.OptRelayAgentInfo(dhcpv4.OptGeneric(dhcpv4.AgentCircuitIDSubOption, []byte("eth1"))))
}

// sendBetween sends a message of client n by way of between.
func (r *rig) sendBetween(n int, kind dhcpv4.MessageType, mods ...dhcpv4.Modifier) (reply, *dhcpv4.DHCPv4) {
	r.t.Helper()
	p, ok := r.srv.Handle(7, between, message(n, kind, mods...).ToBytes())
	if !ok {
		return p, nil
	}
	a, err := dhcpv4.FromBytes(p.Payload)
	require.NoError(r.t, err)
	require.Equal(r.t, mac(n), a.ClientHWAddr)
	return p, a
}

// TestBetween: clients behind a relay (RFC 2131, 4.1) and behind a bridge that puts its own address in place of theirs are answered
// there.
func TestBetween(t *testing.T) {
	const relay, all = "192.168.105.70:67", "255.255.255.255:68"
	flag := func(d *dhcpv4.DHCPv4) { d.SetBroadcast() }
	renews := ciaddr("192.168.105.2")
	for _, tt := range []struct {
		name string
		kind dhcpv4.MessageType
		mods []dhcpv4.Modifier
		want dhcpv4.MessageType
		mac  net.HardwareAddr
		to   string
	}{
		{"relay, OFFER", discover, []dhcpv4.Modifier{relayed}, dhcpv4.MessageTypeOffer, between, relay},
		{"relay, OFFER, broadcast flag", discover, []dhcpv4.Modifier{relayed, flag}, dhcpv4.MessageTypeOffer, between, relay},
		{"relay, ACK", request, []dhcpv4.Modifier{relayed, wish("192.168.105.2")}, dhcpv4.MessageTypeAck, between, relay},
		{"relay, ACK, rebinding", request, []dhcpv4.Modifier{relayed, renews}, dhcpv4.MessageTypeAck, between, relay},
		{"relay, INFORM", inform, []dhcpv4.Modifier{relayed, ciaddr("192.168.105.9")}, dhcpv4.MessageTypeAck, between, relay},
		{"relay, NAK", request, []dhcpv4.Modifier{relayed, wish("10.0.0.1")}, dhcpv4.MessageTypeNak, between, relay},
		{"bridge, OFFER", discover, nil, dhcpv4.MessageTypeOffer, broadcastMAC, all},
		{"bridge, ACK", request, []dhcpv4.Modifier{wish("192.168.105.2")}, dhcpv4.MessageTypeAck, broadcastMAC, all},
		{"bridge, ACK, renewing", request, []dhcpv4.Modifier{renews}, dhcpv4.MessageTypeAck, between, "192.168.105.2:68"},
		{"bridge, NAK", request, []dhcpv4.Modifier{wish("10.0.0.1")}, dhcpv4.MessageTypeNak, broadcastMAC, all},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, a := newRig(t, "192.168.105.254").sendBetween(1, tt.kind, tt.mods...)
			require.NotNil(t, a)
			assert.Equal(t, tt.want, a.MessageType())
			assert.Equal(t, tt.mac, p.MAC)
			assert.Equal(t, tt.to, p.To.String())
			if tt.to != relay {
				assert.True(t, a.GatewayIPAddr.IsUnspecified())
				assert.False(t, a.Options.Has(dhcpv4.OptionRelayAgentInformation))
				return
			}
			assert.Equal(t, "192.168.105.70", a.GatewayIPAddr.String())
			assert.Zero(t, a.HopCount)
			assert.Equal(t, []byte("\x01\x04eth1"), a.Options.Get(dhcpv4.OptionRelayAgentInformation), "RFC 3046, 2.2")
			if tt.want == dhcpv4.MessageTypeNak {
				assert.True(t, a.IsBroadcast(), "RFC 2131, 4.3.2")
			}
		})
	}
}

// TestBetweenPerPort: all that are behind a relay or a bridge are charged to its port.
func TestBetweenPerPort(t *testing.T) {
	r := newRig(t, "192.168.105.254")
	for n := 1; n <= maxPerPort; n++ {
		mods := [][]dhcpv4.Modifier{nil, {relayed}}[n%2]
		_, a := r.sendBetween(n, discover, mods...)
		require.NotNil(t, a)
		require.Equal(t, dhcpv4.MessageTypeOffer, a.MessageType())
	}
	for _, mods := range [][]dhcpv4.Modifier{nil, {relayed}} {
		_, a := r.sendBetween(99, discover, mods...)
		assert.Nil(t, a)
	}
	assert.Equal(t, Counters{PortFull: 2}, r.stats())
	assert.NotEmpty(t, r.lease(99), "another port's are its own")
}

// TestBetweenTakesNothing: a lease that a client has on another port is not changed, moved or ended by what speaks in its place, until
// it ends or its port has gone.
func TestBetweenTakesNothing(t *testing.T) {
	r := newRig(t, "192.168.105.254")
	require.Equal(t, "192.168.105.2", r.lease(1))
	for i, kind := range []dhcpv4.MessageType{discover, request, request, release, decline} {
		for _, mods := range [][]dhcpv4.Modifier{{}, {relayed}} {
			_, a := r.sendBetween(1, kind, append(mods, [][]dhcpv4.Modifier{
				{}, {wish("192.168.105.9")}, {ciaddr("192.168.105.2")}, {ciaddr("192.168.105.2")}, {wish("192.168.105.2")},
			}[i]...)...)
			assert.Nil(t, a)
		}
	}
	assert.Equal(t, Counters{Foreign: 10}, r.stats())
	assert.Equal(t, "ACK 192.168.105.2", r.tell(1, request, ciaddr("192.168.105.2")))
	r.srv.PortGone(1)
	_, a := r.sendBetween(1, request, ciaddr("192.168.105.2"))
	require.NotNil(t, a, "its guest has another port now")
	r.pass(2 * time.Hour)
	assert.Equal(t, "ACK 192.168.105.2", r.tell(1, request, wish("192.168.105.2")), "and what has the client's address is the client")
}
