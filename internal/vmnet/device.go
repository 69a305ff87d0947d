// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/gate"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/api"
)

const (
	// maxPackets and maxBytes are what one vmnet_read or vmnet_write carries, by Apple's documentation; since macOS 15 the
	// framework tells the number of packets itself.
	maxPackets = 200
	maxBytes   = 256 << 10

	// stopTimeout bounds how long an interface may take to stop before nobody waits for it any more.
	stopTimeout = 2 * time.Second
)

// Names of calls, for errors.
const (
	callRead   = "vmnet_read"
	callWrite  = "vmnet_write"
	callCreate = "vmnet_network_create"
)

// A device is a started interface, a client's own or the anchor.
//
//	running --fault--> dead --stop--> stopped
//	running --stop--> stopped
type device struct {
	net       *Network
	who       string // for logs: "client 3", "anchor"
	ifc       api.Interface
	params    api.Params
	maxPacket int // bytes
	readMax   int // packets
	writeMax  int // packets
	began     time.Time

	writes   gate.Gate // whoever writes is inside
	failures failures
	dead     chan struct{} // closed when the interface is of no use any more
	dieOnce  sync.Once
	cause    error // set before dead is closed

	rd *reader // nil while nobody reads; guarded by its owner: the port's keeper, or the hub's lock
}

func newDevice(n *Network, who string, ifc api.Interface) *device {
	d := &device{net: n, who: who, ifc: ifc, params: ifc.Params(), began: time.Now(), dead: make(chan struct{})}
	d.writes.Init()
	d.maxPacket = d.params.MaxPacket
	if d.maxPacket <= 0 {
		d.maxPacket = frame.MaxEthernetLen
		if d.params.MTU > 0 {
			d.maxPacket = d.params.MTU + frame.MinLen
		}
	}
	d.maxPacket = min(max(d.maxPacket, frame.MinLen), frame.MaxLen)
	d.readMax = limit(d.params.ReadMax)
	d.writeMax = limit(d.params.WriteMax)
	return d
}

// limit is how many packets a call carries when the framework reports n, 0 for nothing.
func limit(n int) int {
	if n <= 0 {
		return maxPackets
	}
	return min(n, 4096) // beyond reason
}

// slots is how many packets are read at once.
func (d *device) slots() int { return max(1, min(d.readMax, maxBytes/d.maxPacket)) }

// die ends the use of the interface; its owner then stops it and starts another.
func (d *device) die(cause error) {
	d.dieOnce.Do(func() {
		d.cause = cause
		close(d.dead)
		d.ifc.Wake()
	})
}

func (d *device) isDead() bool {
	select {
	case <-d.dead:
		return true
	default:
		return false
	}
}

// fault takes note of a call that failed and tells what it means.
func (d *device) fault(call string, st api.Status) verdict {
	v := judge(st)
	if v == verdictRefused && call == callRead {
		v = verdictFailed // there is no packet to blame
	}
	if v == verdictFailed && d.failures.add(time.Now()) {
		v = verdictDead
	}
	if v == verdictDead {
		d.die(&api.CallError{Call: call, Status: st})
	}
	return v
}

// panicked turns a recovered panic into the end of the interface.
func (d *device) panicked(r any) {
	d.net.log.Error("internal error: the interface is started again, others run on; please report it",
		"client", d.who, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
	d.die(fmt.Errorf("panic: %v", r))
}

// stop ends everything that uses the interface, then stops it. It returns when nothing is delivered any more; the channel is
// closed when the interface has stopped as well, or would not within stopTimeout. If a read or write never comes back, the
// interface is never stopped: the framework allows no stop under a call.
func (d *device) stop() <-chan struct{} {
	var read <-chan struct{}
	if d.rd != nil {
		read = d.rd.halt()
	}
	idle, stopped := d.writes.Shut(), make(chan struct{})
	d.net.work.Go(func() {
		defer close(stopped)
		if read != nil {
			<-read
		}
		<-idle
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		if err := d.ifc.Stop(ctx); err != nil {
			d.net.log.Warn("an interface could not be stopped in order", "client", d.who, "error", err)
		}
	})
	return stopped
}
