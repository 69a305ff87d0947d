// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

// TestStandingStill: clients of every kind stop reading in the midst of a flood. Others lose nothing; when they go on they get whole
// frames in order, with gaps, and then everything. The daemon stands still for a second, too, and no client leaves for that.
func TestStandingStill(t *testing.T) {
	p := startOpen(t)
	s1, s2, g, flooder := over(t, p.stream()), over(t, p.stream()), over(t, p.attach(proto.Stream)), over(t, p.stream())
	introduce(t, s1, s2, g, flooder)
	goOn := make(chan struct{})
	var still []*fakeguest.Guest
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
			<-goOn
			return true
		})
		still, flows, came = append(still, x), append(flows, f), append(came, n)
	}
	stop := beside(t, newFlow("stream to stream", s1, s2), newFlow("stream to attached", s2, g), newFlow("attached to stream", g, s1))
	for n := range uint64(4000) { // 6 MB for each, of which its queue takes 2 MiB
		var batch [][]byte
		for _, x := range still {
			b := fakeguest.EthernetFrame(x.MAC(), flooder.MAC(), fakeguest.TypeTest, make([]byte, flowSize-14))
			binary.BigEndian.PutUint64(b[14:], n+1)
			binary.BigEndian.PutUint64(b[flowSize-8:], n+1)
			batch = append(batch, b)
		}
		require.NoError(t, flooder.Send(batch...))
	}
	stop()
	close(goOn)
	p.describes(t, func(s status.Status) bool { // until their queues are empty, and the sockets behind them
		return !slices.ContainsFunc(s.Clients, func(c status.Client) bool { return c.Queue.Bytes > 0 })
	})
	for i, f := range flows {
		require.Eventually(t, func() bool {
			before := came[i].Load()
			time.Sleep(100 * time.Millisecond)
			return before > 0 && came[i].Load() == before
		}, 3*patience, time.Millisecond, f.name)
		t.Logf("%s: %d of 4000 frames came", f.name, came[i].Load())
		assert.Zero(t, f.back.Load(), "%s: out of order, or twice", f.name)
		assert.Zero(t, f.damaged.Load(), "%s: damaged", f.name)
	}

	require.NoError(t, p.Process.Signal(syscall.SIGSTOP))
	time.Sleep(time.Second)
	require.NoError(t, p.Process.Signal(syscall.SIGCONT))
	for i, x := range still {
		x.SetTap(nil)
		require.NoError(t, x.Err(), flows[i].name)
		runFlows(t, 100, newFlow("to "+flows[i].name, s1, x), newFlow("from "+flows[i].name, x, s1))
	}
}
