// SPDX-License-Identifier: Apache-2.0

package selftest

import (
	"bytes"
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

const (
	// burstBatch is how many frames are sent at once.
	burstBatch = 32
	// burstWindow is how many frames are on their way at most, as with a guest whose transport heeds loss: a network card's
	// ring is not longer. A burst without bounds would tell how much a queue loses, not how much the network carries.
	burstWindow = 256
	// stall is how long frames are waited for before they count as lost, quiet how long none must come for a burst to be over.
	stall = 10 * time.Millisecond
	quiet = 50 * time.Millisecond
	// pingEvery is the pause between echo requests under load.
	pingEvery = 10 * time.Millisecond
)

// meter is the receiving end of a burst.
type meter struct {
	size     int
	head     []byte // of the burst's frames
	start    time.Time
	received atomic.Uint64
	last     atomic.Int64  // when the last frame came, since start
	came     chan struct{} // told of each frame; holds one value
}

// look is a guest's tap.
func (m *meter) look(f []byte) bool {
	if len(f) != m.size || !bytes.Equal(f[:14], m.head) {
		return false
	}
	m.received.Add(1)
	m.last.Store(int64(time.Since(m.start)))
	select {
	case m.came <- struct{}{}:
	default:
	}
	return true
}

// wait waits until n frames have come, and reports false when none comes for d.
func (m *meter) wait(ctx context.Context, n uint64, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	for m.received.Load() < n {
		select {
		case <-m.came:
			t.Reset(d)
		case <-t.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// A burst is one guest sending to another as fast as the network carries.
type burst struct {
	size           int // bytes of a frame
	sent, received uint64
	took           time.Duration     // until the last frame came
	drops          map[string]uint64 // on the way, by the network's reasons
}

// burst runs a burst from guest a to guest b.
func (r *run) burst(ctx context.Context) (burst, error) {
	from, to := r.guests[0], r.guests[1]
	batch := frames(from, to.MAC(), to.Addr().Addr(), burstBatch, r.mtu())
	b := burst{size: len(batch[0]), drops: map[string]uint64{}}
	m := &meter{size: b.size, head: batch[0][:14], start: time.Now(), came: make(chan struct{}, 1)}
	to.SetTap(m.look)
	defer to.SetTap(nil)
	before := losses(from.Port(), to.Port())
	gone := uint64(0) // frames that are not waited for any more
	for time.Since(m.start) < r.opts.Burst && ctx.Err() == nil {
		if err := from.Send(batch...); err != nil {
			return b, err
		}
		b.sent += burstBatch
		if b.sent > gone+burstWindow && !m.wait(ctx, b.sent-gone-burstWindow, stall) {
			gone = b.sent - min(m.received.Load(), b.sent)
		}
	}
	m.wait(ctx, b.sent, quiet)
	b.received, b.took = m.received.Load(), time.Duration(m.last.Load())
	for reason, n := range losses(from.Port(), to.Port()) {
		if n > before[reason] {
			b.drops[reason] = n - before[reason]
		}
	}
	return b, ctx.Err()
}

// losses are the frames that the network dropped on the way from one port to another, by reason.
func losses(from, to network.Port) map[string]uint64 {
	all := map[string]uint64{}
	for reason, n := range from.Stats().Drops {
		all[string(reason)] += n
	}
	for reason, n := range to.Stats().Lost {
		all[string(reason)] += n
	}
	return all
}

func (b *burst) perSecond() float64 { return float64(b.received) / max(b.took, 1).Seconds() }

func (b *burst) mbit() float64 { return b.perSecond() * float64(b.size) * 8 / 1e6 }

// lost is in percent, with two decimals.
func (b *burst) lost() float64 {
	return math.Round(float64(b.sent-min(b.received, b.sent))/float64(max(b.sent, 1))*1e4) / 100
}

// throughput sends a burst from guest to guest.
func (r *run) throughput(ctx context.Context) Step {
	b, err := r.burst(ctx)
	values := Facts{
		{"frame_bytes", b.size},
		{"sent", b.sent},
		{"received", b.received},
		{"lost_percent", b.lost()},
		{"frames_per_second", uint64(b.perSecond())},
		{"mbit_per_second", uint64(b.mbit())},
		{"drops", b.drops},
	}
	switch {
	case err != nil:
		return fail("%v", err).with(values)
	case b.received == 0:
		return fail("none of %d frames arrived", b.sent).with(values)
	case b.received > b.sent:
		return fail("%d frames arrived of %d that were sent", b.received, b.sent).with(values)
	}
	return pass(values, "within this process, not the speed of a VM")
}

// pingUnderLoad pings the gateway while two others send a burst.
func (r *run) pingUnderLoad(ctx context.Context) Step {
	var b burst
	var failed, last error
	done := make(chan struct{})
	go func() {
		defer close(done)
		b, failed = r.burst(ctx)
	}()
	var took []time.Duration
	sent := 0
	for loaded := true; loaded; {
		sent++
		if d, err := r.guests[2].Ping(r.gateway(), pingData); err == nil {
			took = append(took, d)
		} else {
			last = err
		}
		select {
		case <-done:
			loaded = false
		case <-time.After(pingEvery):
		}
	}
	values := append(Facts{{"sent", sent}, {"answered", len(took)}, {"load_mbit_per_second", uint64(b.mbit())}}, spread(took)...)
	switch {
	case failed != nil:
		return fail("%v", failed).with(values)
	case 2*len(took) <= sent: // a lost one is no wonder now
		return fail("%d of %d answered: %v", len(took), sent, last).with(values)
	}
	return pass(values)
}
