// SPDX-License-Identifier: Apache-2.0

// Package ffi calls vmnet.framework from Go without cgo: it is the binding behind internal/network/vmnet/api.
//
// The package builds everywhere. Its code, and with it purego, is part of a program only on macOS and under the build tag
// vmnetsim, which also has OpenSimulator; elsewhere Open tells that there is no vmnet.framework. That keeps programs for
// Linux static.
//
// The rules that its code follows:
//
//   - Only purego's Dlopen, Dlsym and SyscallN are used. RegisterFunc goes through reflection: 3 allocations
//     and 4 times the time of a SyscallN whose arguments lie ready.
//   - A vmnet_return_t has 32 bits; the upper half of the register it comes in is undefined. Results are truncated.
//   - A function that takes uintptr(unsafe.Pointer(&x)) is marked go:uintptrescapes, as SyscallN is. Without the mark x may
//     be on a goroutine's stack, which may move.
//   - What C keeps an address of beyond a call, which are blocks, is in mapped memory. What it has during a call may be on Go's
//     heap, such as packet descriptors: the caller keeps that alive.
//   - Blocks are hand-made global ones: _Block_copy and _Block_release leave those alone. Their functions are assembly of ours, which
//     stays on C's stack and calls nothing but write(2) and xpc_retain: no code of Go's runs on a thread that Go did not make.
//   - A handler's block stores what it was called with in itself, and wakes a goroutine through a pipe, unless a byte is in that
//     already: see wakeup. What is called once too often does nothing. Nothing here blocks a dispatch queue.
//   - A block whose handler ran is used again. One whose handler never comes is kept for it, and so are its queue and the goroutine
//     that waits: late handlers find their way, at the price of a few kilobytes for each that never comes.
//   - Calls that could take long run on a goroutine of their own, so that the caller is back when its context ends. What
//     such a call brings later is undone: an interface that starts late is stopped.
//   - Symbols are looked up over vmnet, CoreFoundation and libSystem in this order. The frameworks have no file, so
//     they are opened by path and never looked for on disk.
//   - No function with variable arguments is called: on arm64 those take them elsewhere than purego puts them.
package ffi
