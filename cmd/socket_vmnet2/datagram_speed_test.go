// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// A flow is numbered frames from one guest to another, as fast as they are taken, with at most a window of them on their way:
// no queue has a reason to drop any.
type flow struct {
	name     string
	from, to *fakeguest.Guest

	high, got, back, damaged atomic.Uint64
}

const (
	flowWindow = 64
	flowBatch  = 16
	flowSize   = 1514 // bytes
)

// see counts f if it is of this flow.
func (f *flow) see(b []byte) bool {
	if !bytes.Equal(b[6:12], f.from.MAC()) || len(b) != flowSize || !bytes.Equal(b[:6], f.to.MAC()) {
		return false
	}
	n := binary.BigEndian.Uint64(b[14:])
	if binary.BigEndian.Uint64(b[flowSize-8:]) != n {
		f.damaged.Add(1)
	}
	f.got.Add(1)
	if n <= f.high.Load() {
		f.back.Add(1)
		return true
	}
	f.high.Store(n)
	return true
}

// run sends count frames and waits for the last one. A flow that stands still for long is broken.
func (f *flow) run(count uint64) error {
	batch := make([][]byte, flowBatch)
	for i := range batch {
		batch[i] = fakeguest.EthernetFrame(f.to.MAC(), f.from.MAC(), fakeguest.TypeTest, make([]byte, flowSize-14))
	}
	for next := uint64(1); next <= count; {
		n := min(flowBatch, count-next+1)
		if err := f.until(next + n - 1 - min(flowWindow, next+n-1)); err != nil {
			return err
		}
		for i := range n {
			binary.BigEndian.PutUint64(batch[i][14:], next+i)
			binary.BigEndian.PutUint64(batch[i][flowSize-8:], next+i)
		}
		if err := f.from.Send(batch[:n]...); err != nil {
			return err
		}
		next += n
	}
	return f.until(count)
}

// until waits until number n has arrived.
func (f *flow) until(n uint64) error {
	for last, since := uint64(0), time.Now(); f.high.Load() < n; time.Sleep(20 * time.Microsecond) {
		if high := f.high.Load(); high != last {
			last, since = high, time.Now()
		} else if time.Since(since) > 2*patience {
			return fmt.Errorf("%s: number %d did not come, the last one was %d", f.name, n, high)
		}
	}
	return nil
}

// runFlows runs flows at the same time, with count frames each, and checks that each frame came, once and in order.
func runFlows(t *testing.T, count uint64, flows ...*flow) {
	t.Helper()
	to := map[*fakeguest.Guest][]*flow{}
	for _, f := range flows {
		to[f.to] = append(to[f.to], f)
	}
	for g, all := range to {
		g.SetTap(func(b []byte) bool {
			for _, f := range all {
				if f.see(b) {
					return true
				}
			}
			return false
		})
		defer g.SetTap(nil)
	}
	began := time.Now()
	var wg sync.WaitGroup
	for _, f := range flows {
		wg.Go(func() { assert.NoError(t, f.run(count)) })
	}
	wg.Wait()
	took := time.Since(began)
	for _, f := range flows {
		assert.Equal(t, count, f.got.Load(), "%s: frames that came", f.name)
		assert.Zero(t, f.back.Load(), "%s: out of order, or twice", f.name)
		assert.Zero(t, f.damaged.Load(), "%s: damaged", f.name)
		assert.NoError(t, f.to.Err(), f.name)
	}
	t.Logf("%d flows of %d frames in %s: %.0f frames/s", len(flows), count, took.Round(time.Millisecond),
		float64(len(flows))*float64(count)/took.Seconds())
}

func newFlow(name string, from, to *fakeguest.Guest) *flow {
	return &flow{name: name, from: from, to: to}
}

// TestSevenDeafAndOneHealthy: seven of nine clients of the shared socket never read, and are sent to at full speed. The healthy ones, by a
// socket that is connected and one that is not, and the stream clients lose nothing.
func TestSevenDeafAndOneHealthy(t *testing.T) {
	p := startOpen(t)
	s1, s2, flooder := over(t, p.stream()), over(t, p.stream()), over(t, p.stream())
	g, other := over(t, p.connected()), over(t, p.unconnected())
	introduce(t, s1, s2, flooder, g, other)
	var batch [][]byte
	for i := range 7 {
		mac := net.HardwareAddr{2, 0, 0, 0, 0xd, byte(i)}
		l := dialWay(t, []vnettest.Transport{p.unconnected(), p.connected()}[i%2])
		hears(t, s1, "deaf", func() error { return l.Send(testFrame(fakeguest.Broadcast, mac, "deaf")) })
		for range 8 {
			batch = append(batch, fakeguest.EthernetFrame(mac, flooder.MAC(), fakeguest.TypeTest, make([]byte, 1500)))
		}
	}
	stop, full := make(chan struct{}), make(chan struct{})
	var flood sync.WaitGroup
	flood.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			assert.NoError(t, flooder.Send(batch...))
			if i == 500 { // 4,000 frames for each deaf client: what can be full is full
				close(full)
			}
		}
	})
	defer flood.Wait()
	defer close(stop)
	<-full
	runFlows(t, 3000,
		newFlow("stream to connected", s1, g), newFlow("connected to stream", g, s1),
		newFlow("stream to unconnected", s1, other), newFlow("unconnected to stream", other, s1),
		newFlow("stream to stream", s1, s2), newFlow("stream to stream, back", s2, s1),
	)
	assert.True(t, p.alive())
}
