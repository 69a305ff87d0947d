// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fixedRig is a rig with addresses reserved for clients, by number.
func fixedRig(t *testing.T, last string, fixed map[int]string) *rig {
	r := newRig(t, last)
	r.cfg.Fixed = map[[6]byte]netip.Addr{}
	for n, ip := range fixed {
		r.cfg.Fixed[[6]byte(mac(n))] = netip.MustParseAddr(ip)
	}
	r.srv = New(r.cfg)
	return r
}

// TestFixed: client 7's address is 192.168.105.2, the first of the pool, and client 8's is beside the pool.
func TestFixed(t *testing.T) {
	const a2, a3, a9, a200 = "192.168.105.2", "192.168.105.3", "192.168.105.9", "192.168.105.200"
	bound := []step{say(7, discover, "OFFER "+a2), say(7, request, "ACK "+a2, wish(a2), server(gw))}
	after := func(steps ...step) []step { return append(bound[:2:2], steps...) }
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"its client gets it", bound},
		{"whatever it wishes", []step{say(7, discover, "OFFER "+a2, wish(a9))}},
		{"beside the pool", []step{say(8, discover, "OFFER "+a200), say(8, request, "ACK "+a200, wish(a200), server(gw))}},
		{"others do not", []step{say(1, discover, "OFFER "+a3)}},
		{"not by a wish", []step{say(1, discover, "OFFER "+a3, wish(a2)), say(2, discover, "OFFER 192.168.105.4", wish(a200))}},
		{"not by INIT-REBOOT", []step{say(1, request, "NAK", wish(a2)), say(1, request, "NAK", wish(a200))}},
		{"not after it expired", after(later(9*time.Hour, say(1, request, "NAK", wish(a2))), say(1, discover, "OFFER "+a3, wish(a2)))},
		{"not after RELEASE", after(say(7, release, "", ciaddr(a2)), say(1, request, "NAK", wish(a2)))},
		{"INIT-REBOOT", []step{say(7, request, "ACK "+a2, wish(a2))}},
		{"INIT-REBOOT with another one", []step{say(7, request, "NAK", wish(a9)), say(7, discover, "OFFER "+a2)}},
		{"DECLINE does not take it away", after(say(7, decline, "", wish(a2), server(gw)), say(7, discover, "OFFER "+a2), say(1, discover, "OFFER "+a3))},
		{"DECLINE beside the pool", []step{
			say(8, request, "ACK "+a200, wish(a200)), say(8, decline, "", wish(a200), server(gw)), say(8, discover, "OFFER "+a200),
			say(1, discover, "OFFER "+a3),
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := fixedRig(t, "192.168.105.20", map[int]string{7: a2, 8: a200})
			for i, s := range tt.steps {
				r.pass(s.pass)
				require.Equal(t, s.want, r.tell(s.n, s.kind, s.mods...), "step %d", i)
			}
		})
	}
}

// TestFixedAgainstKeptLeases: what was leased before the reservation gives way to it. Without it a lease outside of the pool is
// none.
func TestFixedAgainstKeptLeases(t *testing.T) {
	const a2, a3, a4, a200 = "192.168.105.2", "192.168.105.3", "192.168.105.4", "192.168.105.200"
	r := newRig(t, "192.168.105.20")
	require.Equal(t, a2, r.lease(1))
	require.Equal(t, a3, r.lease(2))
	require.Equal(t, a4, r.lease(7))
	r.cfg.Fixed = map[[6]byte]netip.Addr{[6]byte(mac(7)): netip.MustParseAddr(a2), [6]byte(mac(8)): netip.MustParseAddr(a200)}
	r.restart()
	assert.Equal(t, "NAK", r.tell(1, request, wish(a2)), "it had that")
	assert.Equal(t, "NAK", r.tell(7, request, wish(a4)), "it had that, and shall have another")
	assert.Equal(t, a2, r.lease(7))
	assert.Equal(t, a4, r.lease(1), "which is free now")
	assert.Equal(t, "ACK "+a3, r.tell(2, request, wish(a3)), "no other notices")
	assert.Equal(t, a200, r.lease(8))

	r.restart()
	assert.Equal(t, "ACK "+a2, r.tell(7, request, wish(a2)), "kept as any lease")
	r.cfg.Fixed = nil
	r.restart()
	assert.Equal(t, "ACK "+a2, r.tell(7, request, wish(a2)), "and no trouble without the reservation")
	assert.Equal(t, "NAK", r.tell(8, request, wish(a200)))
}

// TestFixedIsNotForgotten: clients with reservations come even when as many leases are remembered as there may be.
func TestFixedIsNotForgotten(t *testing.T) {
	r := fixedRig(t, "192.168.105.100", map[int]string{7: "192.168.105.50", 8: "192.168.105.51"})
	r.srv.pool.limit = 5
	require.Equal(t, "192.168.105.50", r.lease(7))
	for n := 100; n < 104; n++ {
		require.NotEmpty(t, r.lease(n))
	}
	assert.Equal(t, "192.168.105.51", r.lease(8))
	r.pass(2 * time.Hour)
	for n := 200; n < 240; n++ {
		assert.NotContains(t, []string{"192.168.105.50", "192.168.105.51"}, r.lease(n), n)
	}
	assert.Equal(t, "192.168.105.50", r.lease(7))
	assert.LessOrEqual(t, len(r.srv.pool.byMAC), 5+2)
}
