// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/faults"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

// A reader passes what arrives at an interface on. It has a goroutine of its own, which sleeps until macOS tells of packets.
type reader struct {
	from    *iface
	stale   bool                // begins by throwing away what waits
	deliver func(b frame.Batch) // b holds nothing longer than the interface's maxPacket
	odd     *atomic.Uint64      // counts packets that no frame can be
	mem     *api.Reader
	ready   chan struct{} // closed when that is done, and at the end
	gate    network.Gate  // deliveries; shut at the end
	done    chan struct{} // closed when the goroutine has ended
}

// read begins to read the interface. What waits already is thrown away if it is stale.
func (i *iface) read(stale bool, deliver func(frame.Batch), odd *atomic.Uint64) {
	slots := max(1, min(i.readMax, maxBytes/i.maxPacket))
	r := &reader{
		from: i, stale: stale, deliver: deliver, odd: odd, mem: api.NewReader(slots, i.maxPacket),
		ready: make(chan struct{}), done: make(chan struct{}),
	}
	r.gate.Init()
	i.reader = r
	i.net.work.Go(r.run)
}

// halt ends the reader. When it returns nothing is delivered any more; the channel is closed when the goroutine has ended,
// which is never if a read does not come back.
func (r *reader) halt() <-chan struct{} {
	idle := r.gate.Shut()
	r.from.ifc.Wake()
	<-idle
	return r.done
}

// Times between reads that failed, when no event may come to tell of what is left.
const (
	minReadPause = 10 * time.Millisecond
	maxReadPause = time.Second
)

func (r *reader) run() {
	defer close(r.done)
	defer func() {
		if x := recover(); x != nil {
			r.from.panicked(x)
		}
	}()
	if !r.prepare() {
		return
	}
	for pause := time.Duration(0); ; {
		// Events are edge-triggered and may have come before Notify, so it begins with a read.
		if r.drain() {
			pause = 0
		} else {
			pause = min(max(minReadPause, 2*pause), maxReadPause)
		}
		if !r.wait(pause) {
			break
		}
	}
	if !r.from.isDead() {
		_ = r.from.ifc.Notify(false) // the anchor may go on without a reader
	}
}

// prepare throws away what is stale and turns the events on. It reports whether there is anything to read.
func (r *reader) prepare() bool {
	defer close(r.ready)
	if r.stale {
		r.discard()
	}
	if err := r.from.ifc.Notify(true); err != nil {
		r.from.die(fmt.Errorf("turn events on: %w", err))
		return false
	}
	return true
}

// drain reads until nothing is left, which a read of no packets tells: one of fewer than there is room for may leave some.
// It returns false when a read failed.
func (r *reader) drain() bool {
	for !r.ended() {
		if st := r.from.ifc.Read(r.mem); st != api.Success {
			r.from.fault(callRead, st)
			return false
		}
		b, odd := r.mem.Batch()
		if odd > 0 {
			r.odd.Add(uint64(odd))
		}
		if b.Len() > 0 {
			r.hand(b)
		} else if odd == 0 {
			break
		}
	}
	return true
}

func (r *reader) hand(b frame.Batch) {
	if !r.gate.Enter() {
		return
	}
	defer r.gate.Leave()
	faults.In("vmnet.read", b.Bytes())
	r.deliver(b)
}

// discard throws away what has been waiting. A flood may not hold it up.
func (r *reader) discard() {
	for range 64 {
		if st := r.from.ifc.Read(r.mem); st != api.Success {
			r.from.fault(callRead, st)
			return
		}
		if b, odd := r.mem.Batch(); b.Len()+odd == 0 {
			return
		}
	}
}

func (r *reader) ended() bool { return r.gate.IsShut() || r.from.isDead() }

// wait sleeps until there may be packets, or after a failed read until the pause is over. It returns false at the end.
func (r *reader) wait(pause time.Duration) bool {
	if pause > 0 {
		defer time.AfterFunc(pause, r.from.ifc.Wake).Stop()
	}
	if r.ended() {
		return false
	}
	r.from.ifc.Wait()
	return !r.ended()
}
