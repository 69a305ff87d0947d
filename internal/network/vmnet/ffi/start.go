// SPDX-License-Identifier: Apache-2.0

//go:build darwin || vmnetsim

package ffi

import (
	"context"
	"fmt"
	"net/netip"
	"time"
	"unsafe"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

// nullWait is how long the handler is waited for when the call itself failed. Apple does not say whether it comes then, and
// with it the reason.
const nullWait = time.Second

// Start implements api.API.
func (a *API) Start(ctx context.Context, c api.InterfaceConfig) (api.Interface, error) {
	f := &a.f.startInterface
	return a.start(ctx, f, func(d description) { d.plain(c) }, func(dict, queue, block uintptr) uintptr {
		return f.call(dict, queue, block)
	}, func() {})
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
	b, answers, err := a.blocks.answerBlock(a.s.xpcRetain)
	if err != nil {
		returned()
		return nil, fmt.Errorf("%s: %w", f.name, err)
	}
	i := a.newInterface()
	done := make(chan error) // without room: an interface is either taken or stopped
	go func() {
		dict := a.f.dictCreate.call(0, 0, 0)
		describe(description{a, dict})
		i.ref = call(dict, i.queue, b.address())
		returned()
		a.f.xpcRelease.call(dict)
		err := i.started(f, b, answers)
		select {
		case done <- err:
		case <-ctx.Done():
			if err == nil {
				i.begin()
			}
		}
	}()
	select {
	case err := <-done:
		if err != nil {
			return nil, err
		}
		return i, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: %w: %w", f.name, api.ErrNoAnswer, context.Cause(ctx))
	}
}

// started waits for the handler of a start call that has returned. After an error nothing is left of the interface.
func (i *interfaceRef) started(f *fn, b *block, answers <-chan answer) error {
	var late <-chan time.Time
	if i.ref == 0 {
		late = time.After(nullWait)
	}
	got := answer{status: api.Failure}
	select {
	case got = <-answers:
	case <-late:
		if !i.a.blocks.giveUp(b, answers) {
			got = <-answers
		}
	}
	if got.params != 0 {
		i.params = i.a.params(got.params)
		i.a.f.xpcRelease.call(got.params)
	}
	if got.status == api.Success && i.ref == 0 {
		got.status = api.Failure
	}
	if got.status != api.Success {
		i.release()
		return f.failed(got.status)
	}
	var err error
	if i.block, i.events, err = i.a.blocks.eventBlock(); err != nil {
		i.begin()
		return fmt.Errorf("%s: %w", f.name, err)
	}
	return nil
}

// A description is the XPC dictionary that an interface is started with. Its methods set nothing for a zero value, but for bool.
type description struct {
	a    *API
	dict uintptr
}

func (d description) uint64(k *key, v uint64) {
	if v != 0 {
		d.a.f.dictSetUint64.call(d.dict, k.addr, uintptr(v))
	}
}

func (d description) bool(k *key, v bool) {
	var b uintptr
	if v {
		b = 1
	}
	d.a.f.dictSetBool.call(d.dict, k.addr, b)
}

func (d description) string(k *key, v string) {
	if v != "" {
		d.a.f.dictSetString.call(d.dict, k.addr, uintptr(unsafe.Pointer(cstring(v))))
	}
}

func (d description) addr(k *key, v netip.Addr) {
	if v.IsValid() {
		d.string(k, v.String())
	}
}

func (d description) uuid(k *key, v [16]byte) {
	if v != ([16]byte{}) {
		d.a.f.dictSetUUID.call(d.dict, k.addr, uintptr(unsafe.Pointer(&v)))
	}
}

// switches are the keys that an interface on a network takes as well.
func (d description) switches(c api.InterfaceConfig) {
	d.bool(&d.a.k.isolation, c.Isolate)
	d.bool(&d.a.k.tso, c.Offload)
	d.bool(&d.a.k.checksum, c.Offload)
}

// plain describes a plain interface.
func (d description) plain(c api.InterfaceConfig) {
	k := &d.a.k
	d.uint64(&k.mode, uint64(modes[c.Mode]))
	d.string(&k.sharedInterface, c.SharedInterface)
	d.addr(&k.start, c.Start)
	d.addr(&k.end, c.End)
	d.addr(&k.mask, c.Mask)
	d.uuid(&k.interfaceID, c.InterfaceID)
	d.uuid(&k.networkID, c.NetworkID)
	d.addr(&k.nat66Prefix, c.NAT66Prefix.Addr())
	d.uint64(&k.mtu, uint64(c.MTU))
	d.switches(c)
}
