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
)

// An interfaceRef is a started interface_ref, with a serial queue of its own and the block for its events.
type interfaceRef struct {
	a      *API
	ref    uintptr
	queue  uintptr
	block  *block // called for events; nil, as the next, in one that was stopped as soon as it had started
	events *wakeup
	params api.Params

	mu       sync.Mutex // held over Notify's call
	notifies bool       // events are on

	stopping atomic.Bool
	stopped  chan struct{} // closed when the stop was answered
	stopErr  error
}

var _ api.Interface = (*interfaceRef)(nil)

// newInterface makes what is needed to start an interface. release or stopping frees it.
func (a *API) newInterface() *interfaceRef {
	a.interfaces.Add(1)
	a.queues.Add(1)
	q := a.f.queueCreate.call(uintptr(unsafe.Pointer(cstring("socket_vmnet2"))), 0)
	return &interfaceRef{a: a, queue: q, stopped: make(chan struct{})}
}

// release frees queue and event block.
func (i *interfaceRef) release() {
	if i.events != nil {
		i.a.blocks.putEvent(i.block, i.events)
	}
	i.a.f.queueRelease.call(i.queue)
	i.a.queues.Add(-1)
	i.a.interfaces.Add(-1)
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
	if err := f.failed(f.status(i.ref, packetsAvailable, i.queue, i.block.address())); err != nil {
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
func (i *interfaceRef) Wait() { i.events.wait() }

// Wake implements api.Interface.
func (i *interfaceRef) Wake() { i.events.wake() }

// Read implements api.Interface.
func (i *interfaceRef) Read(r *api.Reader) api.Status {
	r.Reset()
	st, _, _ := purego.SyscallN(i.a.f.read.addr, r.Call(i.ref)...)
	runtime.KeepAlive(r)
	return api.Status(uint32(st))
}

// Write implements api.Interface. Each Writer brings its own argument list, so that goroutines do not get in each other's
// way.
func (i *interfaceRef) Write(w *api.Writer) api.Status {
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
	r := newRule(fw)
	answer := make(chan error, 1)
	go func() {
		answer <- i.a.ask(f, func(block uintptr) api.Status {
			return f.status(i.ref, r.proto, r.hostPort, afInet, uintptr(unsafe.Pointer(r.addr)), r.guestPort, block)
		})
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%s: %w: %w", f.name, api.ErrNoAnswer, context.Cause(ctx))
	}
}

// ask makes a call of f, which answers through a handler with a status, and waits for that: for ever if it never comes. It does not
// wait when the call itself fails, as no handler comes then.
func (a *API) ask(f *fn, call func(block uintptr) api.Status) error {
	b, answers, err := a.blocks.answerBlock(0)
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	if st := call(b.address()); st != api.Success && a.blocks.giveUp(b, answers) {
		return f.failed(st)
	}
	return f.failed((<-answers).status)
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
		f := &i.a.f.stopInterface
		i.stopErr = i.a.ask(f, func(block uintptr) api.Status { return f.status(i.ref, i.queue, block) })
		i.release()
		close(i.stopped)
	}()
}
