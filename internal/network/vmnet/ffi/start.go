// SPDX-License-Identifier: Apache-2.0

//go:build darwin || vmnetsim

package ffi

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

// nullWait is how long the handler is waited for when the call itself failed. Apple does not say whether it comes then, and
// with it the reason.
const nullWait = time.Second

// Start implements api.API.
func (a *API) Start(ctx context.Context, c api.InterfaceConfig) (api.Interface, error) {
	if err := checkPlain(c); err != nil {
		return nil, err
	}
	f := &a.f.startInterface
	return a.start(ctx, f, func(d description) { d.plain(c) }, func(dict, queue, block uintptr) uintptr {
		return f.call(dict, queue, block)
	}, func() {})
}

// A starting is an interface from the call until both the call has returned and its handler was called, whichever comes
// first, and whether or not a caller still waits for it.
type starting struct {
	i *interfaceRef

	mu        sync.Mutex
	returned  bool
	answered  bool
	lost      bool // answered by us: the handler did not come
	abandoned bool // it is not waited for
	status    api.Status
	done      chan struct{} // closed once returned and answered, unless abandoned
}

// start makes one of the two start calls with what describe describes and waits until its handler was called or ctx is done. It
// calls returned once the call has returned or is not going to be made: that may be after start itself, so what the call
// uses lives until then.
func (a *API) start(
	ctx context.Context, f *fn, describe func(description), call func(dict, queue, block uintptr) uintptr, returned func(),
) (api.Interface, error) {
	if ctx.Err() != nil {
		returned()
		return nil, fmt.Errorf("%s: %w", f.name, context.Cause(ctx))
	}
	i := a.newInterface()
	s := &starting{i: i, done: make(chan struct{})}
	h, err := a.blocks.start.take(a.s.globalBlock, a.s.xpcRetain, s.handle, i.release)
	if err != nil {
		returned()
		i.release()
		return nil, fmt.Errorf("%s: %w", f.name, err)
	}
	go func() {
		dict := a.f.dictCreate.call(0, 0, 0)
		describe(description{a, dict})
		ref := call(dict, i.queue, h.block)
		returned()
		a.f.xpcRelease.call(dict)
		s.gotRef(ref)
	}()
	select {
	case <-s.done:
	case <-ctx.Done():
		if s.abandon() {
			return nil, fmt.Errorf("%s: %w: %w", f.name, api.ErrNoAnswer, context.Cause(ctx))
		}
	}
	return s.result(f)
}

// result is what start returns once all is known.
func (s *starting) result(f *fn) (api.Interface, error) {
	if s.status != api.Success {
		if !s.lost { // else the queue is kept for the handler
			s.i.release()
		}
		return nil, f.failed(s.status)
	}
	if err := s.i.listen(); err != nil {
		s.i.begin()
		return nil, fmt.Errorf("%s: %w", f.name, err)
	}
	return s.i, nil
}

// gotRef is the return of the call.
func (s *starting) gotRef(ref uintptr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.i.ref = ref
	s.returned = true
	if ref == 0 && !s.answered {
		time.AfterFunc(nullWait, s.noHandler)
	}
	s.settle()
}

// handle is told what the handler was called with.
func (s *starting) handle(st api.Status, params uintptr) {
	var p api.Params
	if params != 0 {
		p = s.i.a.params(params)
		s.i.a.f.xpcRelease.call(params)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answered { // it was lost
		s.i.release()
		return
	}
	s.answered, s.status = true, st
	s.i.params = p
	s.settle()
}

// noHandler answers in place of a handler that did not come after the call had failed. The block and the queue are kept
// for it.
func (s *starting) noHandler() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.answered {
		s.answered, s.lost, s.status = true, true, api.Failure
		s.settle()
	}
}

// abandon leaves it to settle to undo the start. It reports false when there is nothing left to wait for.
func (s *starting) abandon() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.returned && s.answered {
		return false
	}
	s.abandoned = true
	return true
}

// settle acts once all is known. s.mu is held.
func (s *starting) settle() {
	if !s.returned || !s.answered {
		return
	}
	if s.status == api.Success && s.i.ref == 0 {
		s.status = api.Failure
	}
	switch {
	case !s.abandoned:
		close(s.done)
	case s.status == api.Success:
		s.i.begin()
	case !s.lost:
		s.i.release()
	}
}
