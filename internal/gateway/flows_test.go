// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
)

func someKey(p tcpip.TransportProtocolNumber, i int) flowKey {
	k := flowKey{proto: p}
	k.id.RemotePort, k.id.LocalPort = uint16(i), uint16(1+i>>16)
	return k
}

// TestFlowLimit: each guest has so many TCP flows, and as many UDP flows, of which a new one takes the place of the one that was
// idle for longest.
func TestFlowLimit(t *testing.T) {
	ft := newFlowTable()
	for i := range maxFlows {
		require.NotNil(t, ft.add(1, someKey(header.TCPProtocolNumber, i)))
		ft.add(1, someKey(header.UDPProtocolNumber, i)).used.Store(int64(i))
	}
	assert.Nil(t, ft.add(1, someKey(header.TCPProtocolNumber, 999)), "one too many")
	assert.NotNil(t, ft.add(2, someKey(header.TCPProtocolNumber, 1000)), "another guest counts for itself")
	assert.Nil(t, ft.add(2, someKey(header.TCPProtocolNumber, 3)), "these ports are in use")
	ft.lookup(someKey(header.TCPProtocolNumber, 3)).release()
	assert.NotNil(t, ft.add(1, someKey(header.TCPProtocolNumber, 999)), "there is room again")

	other := ft.add(2, someKey(header.UDPProtocolNumber, 2000))
	other.used.Store(-1)
	ft.lookup(someKey(header.UDPProtocolNumber, 0)).touch()
	idle := ft.lookup(someKey(header.UDPProtocolNumber, 1))
	assert.NotNil(t, ft.add(1, someKey(header.UDPProtocolNumber, 999)))
	assert.Error(t, idle.ctx.Err(), "the one that was idle for longest")
	_, udp := ft.counts()
	assert.Equal(t, maxFlows+1, udp)
}

// TestOrphans: flows of guests that left live on for their return, but not more than maxOrphans; the guest that left first
// loses them first.
func TestOrphans(t *testing.T) {
	ft := newFlowTable()
	flows := map[uint64][]*flow{}
	for guest := uint64(1); guest <= 4; guest++ {
		for i := range 200 {
			flows[guest] = append(flows[guest], ft.add(guest, someKey(header.TCPProtocolNumber, int(guest)<<16|i)))
		}
	}
	leave := func(guest uint64) (ended [5]int) {
		ft.guestGone(guest, time.Hour)
		for guest, all := range flows {
			for _, f := range all {
				if f.ctx.Err() != nil {
					ended[guest]++
				}
			}
		}
		return ended
	}
	assert.Equal(t, [5]int{}, leave(9), "had none")
	assert.Equal(t, [5]int{}, leave(1))
	assert.Equal(t, [5]int{}, leave(2))
	assert.Equal(t, [5]int{1: 600 - maxOrphans}, leave(3))
	for _, f := range flows[3] {
		f.release()
	}
	assert.Equal(t, [5]int{1: 600 - maxOrphans}, leave(4), "there is room for it")
	leave(5)
	assert.Len(t, ft.orphans, maxOrphans)
}

// TestFewFiles: however many flows one guest has, another one has some, those that are still ending counted.
func TestFewFiles(t *testing.T) {
	ft := newFlowTable()
	ft.most = 16
	for guest, want := range []int{8, 4, 2} {
		for i := range 20 {
			ft.add(uint64(guest), someKey(header.TCPProtocolNumber, guest<<16|i))
		}
		assert.Len(t, ft.shares[share{uint64(guest), header.TCPProtocolNumber}], want)
	}
	for i := range 20 { // takes the place of its own, whose sockets are not closed yet
		ft.add(9, someKey(header.UDPProtocolNumber, i))
	}
	assert.Equal(t, ft.most, ft.open)
}

// TestGone: connections of a client that has gone end, with something on the way to the guest or not, unless it comes back.
func TestGone(t *testing.T) {
	n := start(t, Config{}, tuning{returnTime: time.Second})
	gone, back := newIPGuest(t, n, mac1, guestIP), newIPGuest(t, n, mac2, guestIP.Next())
	_, idle := connect(t, gone)
	_, busy := connect(t, gone)
	guest, host := connect(t, back)
	gone.Close()
	n.write(AppendMessage(nil, KindGone, back.Port().(guestPort).session))
	_, err := busy.Write([]byte("lost"))
	require.NoError(t, err)
	for _, c := range []net.Conn{idle, busy} {
		_, err := c.Read(make([]byte, 1))
		assert.ErrorIs(t, err, syscall.ECONNRESET)
	}
	bothWays(t, guest, host, 1<<10)
}
