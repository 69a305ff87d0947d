// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/passing/proto"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// TestSlowClients: clients of every kind that read far less than they are sent get whole frames in order, with gaps; others
// lose nothing. When nobody floods them any more they get everything again.
func TestSlowClients(t *testing.T) {
	p := startOpen(t)
	s1, s2, g, flooder := over(t, p.stream()), over(t, p.stream()), over(t, p.attach(proto.Stream)), over(t, p.stream())
	introduce(t, s1, s2, g, flooder)
	var slow []*fakeguest.Guest
	var flows []*flow
	var came []*atomic.Uint64
	for _, way := range p.ways() {
		x := over(t, way)
		introduce(t, flooder, x)
		f, n := newFlow(way.Name, flooder, x), &atomic.Uint64{}
		x.SetTap(func(b []byte) bool { // on the goroutine that reads
			if !f.see(b) {
				return false
			}
			n.Add(1)
			time.Sleep(time.Millisecond)
			return true
		})
		slow, flows, came = append(slow, x), append(flows, f), append(came, n)
	}
	stop := beside(t, newFlow("stream to stream", s1, s2), newFlow("stream to attached", s2, g), newFlow("attached to stream", g, s1))
	var flood sync.WaitGroup
	const each = 4000 // 6 MB, of which its queue takes 2 MiB
	flood.Go(func() {
		for n := uint64(1); n <= each; n++ {
			var batch [][]byte
			for _, x := range slow {
				b := fakeguest.EthernetFrame(x.MAC(), flooder.MAC(), fakeguest.TypeTest, make([]byte, flowSize-14))
				binary.BigEndian.PutUint64(b[14:], n)
				binary.BigEndian.PutUint64(b[flowSize-8:], n)
				batch = append(batch, b)
			}
			if !assert.NoError(t, flooder.Send(batch...)) {
				return
			}
		}
	})
	flood.Wait()
	stop()
	require.Eventually(t, func() bool { // until their queues are empty: one with a full queue would lose what follows
		s, _ := p.status(t)
		return !slices.ContainsFunc(s.Clients, func(c status.Client) bool { return c.Queue.Bytes > 0 })
	}, 3*patience, 10*time.Millisecond)
	for i, f := range flows {
		require.Eventually(t, func() bool { // and their sockets
			before := came[i].Load()
			time.Sleep(100 * time.Millisecond)
			return before > 0 && came[i].Load() == before
		}, 3*patience, time.Millisecond, f.name)
		t.Logf("%s: %d of %d frames came", f.name, came[i].Load(), each)
		assert.Zero(t, f.back.Load(), "%s: out of order, or twice", f.name)
		assert.Zero(t, f.damaged.Load(), "%s: damaged", f.name)
		slow[i].SetTap(nil)
	}
	for i, x := range slow {
		require.NoError(t, x.Err(), flows[i].name)
		runFlows(t, 100, newFlow("to "+flows[i].name, s1, x), newFlow("from "+flows[i].name, x, s1))
	}
}
