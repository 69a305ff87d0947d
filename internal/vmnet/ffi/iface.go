// SPDX-License-Identifier: Apache-2.0

//go:build darwin || vmnetsim

package ffi

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/pkt"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// An Interface is a started interface_ref, with a serial queue of its own and the block for its events.
type Interface struct {
	a      *API
	ref    uintptr
	queue  uintptr
	events *handler[eventFunc] // nil in one that was stopped as soon as it had started
	bell   *bell               // like events
	params api.Params

	wake atomic.Pointer[chan<- struct{}] // nil: events are off
	busy atomic.Int32                    // wakes under way

	mu sync.Mutex // held over Notify's call

	stopping atomic.Bool
	free     sync.Once
	stopped  chan struct{} // closed when the stop was answered
	stopErr  error
}

var _ api.Interface = (*Interface)(nil)

// newInterface makes what is needed to start an interface. release or stopping frees it.
func (a *API) newInterface() *Interface {
	a.interfaces.Add(1)
	return &Interface{a: a, queue: a.newQueue(), stopped: make(chan struct{})}
}

// listen makes the bell and the event block, once, for an interface that has started.
func (i *Interface) listen() (err error) {
	if i.bell, err = newBell(); err != nil {
		return err
	}
	go i.pass()
	if i.events, err = i.a.blocks.event.take(i.a.s.globalBlock, i.event, nil); err != nil {
		return fmt.Errorf("make event block: %w", err)
	}
	return nil
}

// release frees queue and event block, once. No event block can be called any more, or it finds no handler.
func (i *Interface) release() {
	i.free.Do(func() {
		if i.events != nil {
			i.a.blocks.event.put(i.events)
		}
		i.a.releaseQueue(i.queue)
		i.a.interfaces.Add(-1)
	})
}

// Params implements api.Interface.
func (i *Interface) Params() api.Params { return i.params }

// event runs on the interface's queue.
func (i *Interface) event() {
	if i.wake.Load() != nil {
		i.bell.ring()
	}
}

// pass passes events on until the interface is stopped.
func (i *Interface) pass() {
	for i.bell.hear() {
		i.busy.Add(1)
		if wake := i.wake.Load(); wake != nil {
			select {
			case *wake <- struct{}{}:
			default:
			}
		}
		i.busy.Add(-1)
	}
}

// Notify implements api.Interface. An event may still come after the events were turned off, but finds no channel; one that
// has found it is waited for.
func (i *Interface) Notify(wake chan<- struct{}) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if wake == nil {
		return i.mute()
	}
	if i.stopping.Load() {
		return fmt.Errorf("turn on events: %w", net.ErrClosed)
	}
	i.wake.Store(&wake)
	f := &i.a.f.setEventCallback
	if err := f.failed(f.status(i.ref, packetsAvailable, i.queue, i.events.block)); err != nil {
		_ = i.mute() // it fails for the same reason
		return err
	}
	return nil
}

// mute turns events off. i.mu is held.
func (i *Interface) mute() error {
	if i.wake.Swap(nil) == nil {
		return nil
	}
	f := &i.a.f.setEventCallback
	err := f.failed(f.status(i.ref, packetsAvailable, 0, 0))
	for i.busy.Load() != 0 { // a few instructions
		runtime.Gosched()
	}
	return err
}

// Read implements api.Interface.
func (i *Interface) Read(r *pkt.Reader) api.Status {
	r.Reset()
	st, _, _ := purego.SyscallN(i.a.f.read.addr, r.Call(i.ref)...)
	runtime.KeepAlive(r)
	return api.Status(uint32(st))
}

// Write implements api.Interface. Each Writer brings its own argument list, so that goroutines do not get in each other's
// way.
func (i *Interface) Write(w *pkt.Writer) api.Status {
	st, _, _ := purego.SyscallN(i.a.f.write.addr, w.Call(i.ref)...)
	runtime.KeepAlive(w)
	return api.Status(uint32(st))
}

// Forward implements api.Interface.
func (i *Interface) Forward(ctx context.Context, fw vnet.Forward) error {
	f := &i.a.f.addForward
	if err := need(f); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", f.name, context.Cause(ctx))
	}
	r, err := newRule(f, fw)
	if err != nil {
		return err
	}
	answer := make(chan error, 1)
	go i.a.answered(f, func(block uintptr) api.Status {
		return f.status(i.ref, r.proto, r.hostPort, r.family, uintptr(unsafe.Pointer(r.addr)), r.guestPort, block)
	}, func(err error) { answer <- err }, nil)
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%s: %w: %w", f.name, api.ErrNoAnswer, context.Cause(ctx))
	}
}

// answered makes a call of f, which answers through a handler with a status. done is called once: from the handler, or at
// once when the call itself fails, as no handler comes then. abandon is called in its place if the handler is given up.
func (a *API) answered(f *fn, call func(block uintptr) api.Status, done func(error), abandon func()) {
	h, err := a.blocks.status.take(a.s.globalBlock, func(st api.Status) { done(f.failed(st)) }, abandon)
	if err != nil {
		done(fmt.Errorf("%s: %w", f.name, err))
		return
	}
	if st := call(h.block); st != api.Success && a.blocks.status.put(h) {
		done(f.failed(st))
	}
}

// Stop implements api.Interface. If ctx ends first, the interface is freed when the handler comes; another Stop waits for
// that again.
func (i *Interface) Stop(ctx context.Context) error {
	i.begin()
	select {
	case <-i.stopped:
		return i.stopErr
	case <-ctx.Done():
	}
	select {
	case <-i.stopped:
		return i.stopErr
	default:
		return fmt.Errorf("%s: %w: %w", i.a.f.stopInterface.name, api.ErrNoAnswer, context.Cause(ctx))
	}
}

// begin begins to stop, once, and does not wait.
func (i *Interface) begin() {
	if !i.stopping.CompareAndSwap(false, true) {
		return
	}
	go func() {
		i.mu.Lock()
		_ = i.mute() // whatever it says, no event gets through any more
		i.mu.Unlock()
		if i.bell != nil {
			i.bell.close()
		}
		f := &i.a.f.stopInterface
		i.a.answered(f, func(block uintptr) api.Status { return f.status(i.ref, i.queue, block) }, func(err error) {
			i.stopErr = err
			i.release() // the queue is serial: no event block comes after this handler
			close(i.stopped)
		}, i.release)
	}()
}
