// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

const (
	// maxPackets and maxBytes are what one vmnet_read or vmnet_write carries, by Apple's documentation; since macOS 15 the
	// framework tells the number of packets itself.
	maxPackets = 200
	maxBytes   = 256 << 10

	// stopTimeout bounds how long an interface may take to stop before it is left behind.
	stopTimeout = 2 * time.Second

	// A general failure may pass; this many of them within this time are the end of an interface.
	maxFailures   = 3
	failureWindow = time.Second
)

// callRead is the name of the call, for errors.
const callRead = "vmnet_read"

// An iface is a started interface, a client's own or the anchor.
//
//	running --fault--> dead --stop--> stopped
//	running --stop--> stopped
type iface struct {
	net       *Network
	name      string // for logs: "client 3", "anchor"
	own       bool   // a client's, not the anchor
	ifc       api.Interface
	params    api.Params
	maxPacket int // bytes
	readMax   int // packets
	writeMax  int // packets
	began     time.Time

	writes  network.Gate  // writers are inside
	dead    chan struct{} // closed when the interface is of no use any more
	dieOnce sync.Once
	cause   error // set before dead is closed

	mu       sync.Mutex
	failures [maxFailures]time.Time // the last general ones, oldest first

	reader *reader // nil while it is not read; guarded by its owner: the port's keeper, or the shared interface's lock
}

func newInterface(n *Network, name string, own bool, ifc api.Interface) *iface {
	i := &iface{net: n, name: name, own: own, ifc: ifc, params: ifc.Params(), began: time.Now(), dead: make(chan struct{})}
	i.writes.Init()
	longest := cmp.Or(i.params.MaxPacket, cmp.Or(i.params.MTU, 1500)+frame.MinLen)
	i.maxPacket = min(max(longest, frame.MinLen), frame.MaxLen)
	i.readMax = limit(i.params.ReadMax)
	i.writeMax = limit(i.params.WriteMax)
	return i
}

// limit is how many packets a call carries when the framework reports n, 0 for nothing. More would be beyond reason.
func limit(n int) int { return min(cmp.Or(n, maxPackets), 4096) }

// die ends the use of the interface; its owner then stops it and starts another.
func (i *iface) die(cause error) {
	i.dieOnce.Do(func() {
		i.cause = cause
		close(i.dead)
		i.ifc.Wake()
	})
}

func (i *iface) isDead() bool {
	select {
	case <-i.dead:
		return true
	default:
		return false
	}
}

// panicked turns a recovered panic into the end of the interface.
func (i *iface) panicked(r any) {
	i.net.log.Error("internal error: the interface is started again, others run on; please report it",
		"client", i.name, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
	i.die(fmt.Errorf("panic: %v", r))
}

// A verdict is what a failed read or write means for the interface.
type verdict int

const (
	verdictRefused   verdict = iota // the packets are to blame
	verdictExhausted                // the kernel has no buffers for the moment
	verdictFailed                   // no telling
	verdictDead                     // the interface is gone
)

// judge sorts a status other than Success.
func judge(st api.Status) verdict {
	switch st {
	case api.InvalidArgument, api.PacketTooBig, api.TooManyPackets:
		return verdictRefused
	case api.BufferExhausted, api.MemFailure:
		return verdictExhausted
	case api.InvalidAccess, api.SetupIncomplete:
		return verdictDead
	}
	return verdictFailed
}

// fault takes note of a call that failed and tells what it means.
func (i *iface) fault(call string, st api.Status) verdict {
	v := judge(st)
	if v == verdictRefused && call == callRead {
		v = verdictFailed // there is no packet to blame
	}
	if v == verdictFailed && i.oneTooMany(time.Now()) {
		v = verdictDead
	}
	if v == verdictDead {
		i.die(&api.CallError{Call: call, Status: st})
	}
	return v
}

// oneTooMany notes a general failure.
func (i *iface) oneTooMany(now time.Time) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	copy(i.failures[:], i.failures[1:])
	i.failures[maxFailures-1] = now
	return !i.failures[0].IsZero() && now.Sub(i.failures[0]) <= failureWindow
}

// stop ends everything that uses the interface, then stops it. It returns when nothing is delivered any more; the channel is
// closed when the interface has stopped as well, or would not within stopTimeout. If a read or write never comes back, the
// interface is never stopped: the framework allows no stop under a call.
func (i *iface) stop() <-chan struct{} {
	var read <-chan struct{}
	if i.reader != nil {
		read = i.reader.halt()
	}
	idle, stopped := i.writes.Shut(), make(chan struct{})
	i.net.work.Go(func() {
		defer close(stopped)
		if read != nil {
			<-read
		}
		<-idle
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		if err := i.ifc.Stop(ctx); err != nil {
			i.net.log.Warn("an interface could not be stopped in order", "client", i.name, "error", err)
		}
		if i.own {
			i.net.own.Add(-1)
			i.net.shared.hintOldest()
		}
	})
	return stopped
}
