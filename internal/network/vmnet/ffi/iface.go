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

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/pkt"
)

// An interfaceRef is a started interface_ref, with a serial queue of its own and the block for its events.
type interfaceRef struct {
	a      *API
	ref    uintptr
	queue  uintptr
	events *handler[*wakeup] // nil in one that was stopped as soon as it had started
	params api.Params

	mu       sync.Mutex // held over Notify's call
	notifies bool       // events are on

	stopping atomic.Bool
	free     sync.Once
	stopped  chan struct{} // closed when the stop was answered
	stopErr  error
}

var _ api.Interface = (*interfaceRef)(nil)

// newInterface makes what is needed to start an interface. release or stopping frees it.
func (a *API) newInterface() *interfaceRef {
	a.interfaces.Add(1)
	return &interfaceRef{a: a, queue: a.newQueue(), stopped: make(chan struct{})}
}

// listen makes the event block, once, for an interface that has started.
func (i *interfaceRef) listen() (err error) {
	if i.events, err = i.a.eventBlock(); err != nil {
		return err
	}
	return nil
}

// release frees queue and event block, once. If the event block is called nevertheless, its slot's next user hears of it.
func (i *interfaceRef) release() {
	i.free.Do(func() {
		if i.events != nil {
			i.a.blocks.event.cancel(i.events)
		}
		i.a.releaseQueue(i.queue)
		i.a.interfaces.Add(-1)
	})
}

// Params implements api.Interface.
func (i *interfaceRef) Params() api.Params { return i.params }

// Notify implements api.Interface.
func (i *interfaceRef) Notify(on bool) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !on {
		return i.mute()
	}
	if i.stopping.Load() {
		return fmt.Errorf("turn on events: %w", net.ErrClosed)
	}
	i.notifies = true
	f := &i.a.f.setEventCallback
	if err := f.failed(f.status(i.ref, packetsAvailable, i.queue, i.events.block)); err != nil {
		_ = i.mute() // it fails for the same reason
		return err
	}
	return nil
}

// mute turns events off. i.mu is held.
func (i *interfaceRef) mute() error {
	if !i.notifies {
		return nil
	}
	i.notifies = false
	f := &i.a.f.setEventCallback
	return f.failed(f.status(i.ref, packetsAvailable, 0, 0))
}

// Wait implements api.Interface.
func (i *interfaceRef) Wait() { i.events.do.wait() }

// Wake implements api.Interface.
func (i *interfaceRef) Wake() { i.events.do.wake() }

// Read implements api.Interface.
func (i *interfaceRef) Read(r *pkt.Reader) api.Status {
	r.Reset()
	st, _, _ := purego.SyscallN(i.a.f.read.addr, r.Call(i.ref)...)
	runtime.KeepAlive(r)
	return api.Status(uint32(st))
}

// Write implements api.Interface. Each Writer brings its own argument list, so that goroutines do not get in each other's
// way.
func (i *interfaceRef) Write(w *pkt.Writer) api.Status {
	st, _, _ := purego.SyscallN(i.a.f.write.addr, w.Call(i.ref)...)
	runtime.KeepAlive(w)
	return api.Status(uint32(st))
}

// Forward implements api.Interface.
func (i *interfaceRef) Forward(ctx context.Context, fw network.Forward) error {
	f := &i.a.f.addForward
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", f.name, context.Cause(ctx))
	}
	r, err := newRule(fw)
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
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
	h, err := a.blocks.status.take(a.s.globalBlock, 0, func(st api.Status, _ uintptr) { done(f.failed(st)) }, abandon)
	if err != nil {
		done(fmt.Errorf("%s: %w", f.name, err))
		return
	}
	if st := call(h.block); st != api.Success && a.blocks.status.cancel(h) {
		done(f.failed(st))
	}
}

// Stop implements api.Interface. If ctx ends first, the interface is freed when the handler comes; another Stop waits for
// that again.
func (i *interfaceRef) Stop(ctx context.Context) error {
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
func (i *interfaceRef) begin() {
	if !i.stopping.CompareAndSwap(false, true) {
		return
	}
	go func() {
		i.mu.Lock()
		_ = i.mute() // whatever it says
		i.mu.Unlock()
		if i.events != nil {
			i.events.do.wake()
		}
		f := &i.a.f.stopInterface
		var refused atomic.Bool
		i.a.answered(f, func(block uintptr) api.Status {
			st := f.status(i.ref, i.queue, block)
			refused.Store(st != api.Success)
			return st
		}, func(err error) {
			i.stopErr = err
			if i.events != nil && !refused.Load() { // from the handler
				i.a.blocks.wakeups.close(i.events.slot)
			}
			i.release() // the queue is serial: no event block comes after this handler
			close(i.stopped)
		}, i.release)
	}()
}
