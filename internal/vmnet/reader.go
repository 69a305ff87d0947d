// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"fmt"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/faults"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/gate"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/pkt"
)

// A reader passes what arrives at a device on. It has a goroutine of its own, which sleeps until macOS tells of packets.
type reader struct {
	dev     *device
	deliver func(b frame.Batch) // b holds nothing longer than the device's maxPacket
	odd     func(n int)         // told of packets that no frame can be
	mem     *pkt.Reader
	quit    chan struct{}
	once    sync.Once
	begun   bool          // used by the owner
	stale   bool          // begins by throwing away what waits
	ready   chan struct{} // closed when that is done, and at the end
	gate    gate.Gate     // deliveries
	done    chan struct{} // closed when the goroutine has ended
}

// newReader lays out the memory. Whether begun or not, it is halted in the end.
func newReader(d *device, deliver func(frame.Batch), odd func(int)) *reader {
	r := &reader{
		dev: d, deliver: deliver, odd: odd, mem: pkt.NewReader(d.slots(), d.maxPacket),
		quit: make(chan struct{}), done: make(chan struct{}), ready: make(chan struct{}),
	}
	r.gate.Init()
	return r
}

// begin starts the goroutine, which turns the events on.
func (r *reader) begin() {
	r.begun = true
	r.dev.net.work.Go(r.run)
}

// halt ends the reader. When it returns nothing is delivered any more; the channel is closed when the goroutine has ended,
// which is never if a read does not come back.
func (r *reader) halt() <-chan struct{} {
	r.once.Do(func() {
		close(r.quit)
		r.dev.ifc.Wake()
		if !r.begun {
			close(r.done)
		}
	})
	<-r.gate.Shut()
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
			r.dev.panicked(x)
		}
	}()
	if !r.prepare() {
		return
	}
	pause := time.Duration(0)
	for {
		// Events are edge-triggered and may have come before Notify, so it begins with a read.
		if r.drain() {
			pause = 0
		} else {
			pause = min(max(minReadPause, 2*pause), maxReadPause)
		}
		if !r.wait(pause) {
			return
		}
	}
}

// prepare throws away what is stale and turns the events on. It reports whether there is anything to read.
func (r *reader) prepare() bool {
	defer close(r.ready)
	if r.stale {
		r.discard()
	}
	if err := r.dev.ifc.Notify(true); err != nil {
		r.dev.die(fmt.Errorf("turn events on: %w", err))
		return false
	}
	return true
}

// drain reads until nothing is left, which a read of no packets tells: one of fewer than there is room for may leave some.
// It returns false when a read failed.
func (r *reader) drain() bool {
	for !r.ended() {
		if st := r.dev.ifc.Read(r.mem); st != api.Success {
			r.dev.fault(callRead, st)
			return false
		}
		b, odd := r.mem.Batch()
		if odd > 0 {
			r.odd(odd)
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

// discard throws away what has been waiting, before the reader begins. A flood may not hold it up.
func (r *reader) discard() {
	for range 64 {
		if st := r.dev.ifc.Read(r.mem); st != api.Success {
			r.dev.fault(callRead, st)
			return
		}
		if b, odd := r.mem.Batch(); b.Len()+odd == 0 {
			return
		}
	}
}

func (r *reader) ended() bool {
	select {
	case <-r.quit:
		return true
	case <-r.dev.dead:
		return true
	default:
		return false
	}
}

// wait sleeps until there may be packets, or after a failed read until the pause is over. It returns false at the end.
func (r *reader) wait(pause time.Duration) bool {
	if pause > 0 {
		defer time.AfterFunc(pause, r.dev.ifc.Wake).Stop()
	}
	if r.ended() {
		return false
	}
	r.dev.ifc.Wait()
	return !r.ended()
}
