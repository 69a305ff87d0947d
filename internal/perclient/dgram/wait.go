// SPDX-License-Identifier: Apache-2.0

package dgram

import "time"

const (
	// minPause and maxPause bound how long the drainer waits for a client where the system does not tell when it has room.
	minPause = 50 * time.Microsecond
	maxPause = 32 * time.Millisecond

	// maxYields is how often it first only lets others run: a client that reads has mostly done so after a few microseconds.
	maxYields = 24

	// maxVain is how often a reply socket may say that there is room when there is none before the drainer pauses.
	maxVain = 3
)

// Wait implements link.pipe. A reply socket's readiness is waited for where the system has it; else, and where that has said
// too often what was not so, the drainer pauses.
func (p *pipe) Wait(stop <-chan struct{}) {
	p.mu.Lock()
	r, vain, stopped := p.reply, p.vain, p.stopped
	p.mu.Unlock()
	switch {
	case stopped:
	case r == nil && vain <= maxYields:
		yield()
	case r == nil:
		p.pause(pauseFor(vain-maxYields), stop)
	case !repliesTell:
		p.pause(minPause, stop)
	default:
		if vain > maxVain {
			p.pause(pauseFor(vain-maxVain), stop)
		}
		r.wait()
	}
}

// pauseFor is how long to wait after n sends in vain: twice as long each time.
func pauseFor(n int) time.Duration {
	d := minPause
	for ; n > 1 && d < maxPause; n-- {
		d *= 2
	}
	return min(d, maxPause)
}

// pause waits for d or for stop. Only the drainer calls it.
func (p *pipe) pause(d time.Duration, stop <-chan struct{}) {
	if p.timer == nil {
		p.timer = time.NewTimer(d)
	} else {
		p.timer.Reset(d)
	}
	select {
	case <-p.timer.C:
	case <-stop:
		p.timer.Stop()
	}
}
