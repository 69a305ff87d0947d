// SPDX-License-Identifier: Apache-2.0

package selftest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

const (
	// burstBatch is how many frames are sent at once.
	burstBatch = 32
	// burstWindow is how many frames are on their way at most, as with a guest whose transport heeds loss: a network card's
	// ring is not longer. A burst without bounds would tell how much a queue loses, not how much the network carries.
	burstWindow = 256
	// stall is how long frames are waited for before they count as lost.
	stall = 10 * time.Millisecond
	// quiet is how long nothing must come for a burst to be over.
	quiet = 50 * time.Millisecond
	// pingEvery is the pause between echo requests under load.
	pingEvery = 10 * time.Millisecond
)

// A burst is one guest sending to another as fast as the network carries.
type burst struct {
	size           int // bytes of a frame
	sent, received uint64
	took           time.Duration // until the last frame came
	drops          map[string]uint64
}

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

// burst runs a burst for d.
func (r *run) burst(ctx context.Context, from, to *guest, d time.Duration) (burst, error) {
	batch := frames(from, to.MAC(), to.Addr().Addr(), burstBatch, r.mtu())
	b := burst{size: len(batch[0]), drops: map[string]uint64{}}
	m := &meter{size: b.size, head: batch[0][:14], start: time.Now(), came: make(chan struct{}, 1)}
	to.SetTap(m.look)
	defer to.SetTap(nil)
	before := losses(from.Port(), to.Port())
	gone := uint64(0) // frames that are not waited for any more
	for time.Since(m.start) < d && ctx.Err() == nil {
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
	b.drops = losses(from.Port(), to.Port())
	for reason, n := range before {
		if b.drops[reason] -= n; b.drops[reason] == 0 {
			delete(b.drops, reason)
		}
	}
	return b, ctx.Err()
}

// losses are the frames that the network dropped on the way from one port to another, by reason.
func losses(from, to vnet.Port) map[string]uint64 {
	all := map[string]uint64{}
	for reason, n := range from.Stats().Drops {
		all[string(reason)] += n
	}
	for reason, n := range to.Stats().Lost {
		all[string(reason)] += n
	}
	return all
}

func (b *burst) lost() float64 {
	if b.sent == 0 {
		return 0
	}
	return math.Round(float64(b.sent-min(b.received, b.sent))/float64(b.sent)*1e4) / 100
}

func (b *burst) perSecond() float64 { return float64(b.received) / max(b.took, 1).Seconds() }

func (b *burst) mbit() float64 { return b.perSecond() * float64(b.size) * 8 / 1e6 }

func (b *burst) values() Facts {
	return Facts{
		{"frame_bytes", b.size},
		{"sent", b.sent},
		{"received", b.received},
		{"lost_percent", b.lost()},
		{"frames_per_second", math.Round(b.perSecond())},
		{"mbit_per_second", math.Round(b.mbit())},
		{"drops", b.drops},
	}
}

// String tells of the burst in a few words.
func (b *burst) String() string {
	parts := []string{fmt.Sprintf("%.0f Mbit/s, %.0f frames/s of %d bytes, %.2f %% lost", b.mbit(), b.perSecond(), b.size, b.lost())}
	for _, reason := range slices.Sorted(maps.Keys(b.drops)) {
		parts = append(parts, fmt.Sprintf("%s %d", reason, b.drops[reason]))
	}
	return strings.Join(parts, ", ")
}

// throughput sends a burst from guest to guest.
func (r *run) throughput(ctx context.Context) result {
	b, err := r.burst(ctx, r.guests[0], r.guests[1], r.opts.Burst)
	switch {
	case err != nil:
		return fail("%v", err).with(b.values())
	case b.received == 0:
		return fail("none of %d frames arrived", b.sent).with(b.values())
	case b.received > b.sent:
		return fail("%d frames arrived of %d that were sent", b.received, b.sent).with(b.values())
	}
	return pass(b.values(), "%s", b.String())
}

// pingUnderLoad pings the gateway while two others send a burst.
func (r *run) pingUnderLoad(ctx context.Context) result {
	type outcome struct {
		b   burst
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		b, err := r.burst(ctx, r.guests[0], r.guests[1], r.opts.Burst)
		done <- outcome{b, err}
	}()
	g, sent := r.guests[2], 0
	var took []time.Duration
	var last error
	var o outcome
	for loaded := true; loaded; {
		sent++
		d, err := g.Ping(r.gateway(), pingData)
		if err == nil {
			took = append(took, d)
		} else {
			last = err
		}
		select {
		case o = <-done:
			loaded = false
		case <-time.After(pingEvery):
		}
	}
	values := Facts{{"sent", sent}, {"answered", len(took)}, {"load_mbit_per_second", math.Round(o.b.mbit())}}
	switch {
	case o.err != nil:
		return fail("%v", o.err).with(values)
	case 2*len(took) <= sent: // a lost one is no wonder now
		return fail("%d of %d answered: %v", len(took), sent, last).with(values)
	}
	values = append(values, Fact{"min_ms", millis(slices.Min(took))}, Fact{"median_ms", millis(median(took))}, Fact{"max_ms", millis(slices.Max(took))})
	return pass(values, "%d of %d answered, median %s, max %s, beside %.0f Mbit/s", len(took), sent, short(median(took)), short(slices.Max(took)), o.b.mbit())
}

// list joins names for a text, the first few only.
func list(all []string) string {
	const most = 5
	if len(all) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
	}
	return strings.Join(all, ", ")
}
