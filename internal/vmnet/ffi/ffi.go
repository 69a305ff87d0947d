// SPDX-License-Identifier: Apache-2.0

// Package ffi calls vmnet.framework from Go without cgo: it is the binding behind internal/vmnet/api.
//
// The package builds everywhere. Its code, and with it purego, is part of a program only on macOS and under the build tag
// vmnetsim, which also has OpenSimulator; elsewhere Open tells that there is no vmnet.framework. That keeps programs for
// Linux static.
//
// The rules that its code follows:
//
//   - Only purego's Dlopen, Dlsym, SyscallN and NewCallback are used. RegisterFunc goes through reflection: 3 allocations
//     and 4 times the time of a SyscallN whose arguments lie ready.
//   - A vmnet_return_t has 32 bits; the upper half of the register it comes in is undefined. Results are truncated.
//   - A function that takes uintptr(unsafe.Pointer(&x)) is marked go:uintptrescapes, as SyscallN is. Without the mark x may
//     be on a goroutine's stack, and that moves when a callback needs more of it during the call.
//   - What C keeps an address of beyond a call is in mapped memory: packet descriptors (package pkt) and blocks. Nothing
//     in there refers to Go's heap but descriptors of a vmnet_write, for as long as pkt.Writer holds the buffer.
//   - Blocks are hand-made global ones: _Block_copy and _Block_release leave those alone. The one word they capture is an
//     index into a table of handlers, and the block itself is the first argument of its function: one C callback per
//     signature serves the whole process. purego has room for 2,000 callbacks and never frees one.
//   - The function of an event's block is assembly of ours, strike: it stays on C's stack and calls nothing but write(2).
//   - Each signature has a table of its own. A block that the framework calls once too often therefore never runs a
//     handler of another signature.
//   - A slot of a table is used again after its handler ran. One whose handler never came stays taken until the table is
//     full and it is the oldest, at least 10 minutes old: so late handlers find their way, and never-coming ones cost
//     bounded memory.
//   - An event block writes a byte to a pipe, unless one is in it already; see bell. Whoever reads packets waits for it. Other
//     handlers note a result. Nothing here blocks a dispatch queue.
//   - Calls that could take long run on a goroutine of their own, so that the caller is back when its context ends. What
//     such a call brings later is undone: an interface that starts late is stopped.
//   - Symbols are looked up over vmnet, CoreFoundation and libSystem in this order. The frameworks have no file, so
//     they are opened by path and never looked for on disk.
//   - No function with variable arguments is called: on arm64 those take them elsewhere than purego puts them.
package ffi
