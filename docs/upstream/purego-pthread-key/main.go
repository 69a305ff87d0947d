// SPDX-License-Identifier: Apache-2.0

//go:build ignore

// This program has one thread of libdispatch call back into Go 10,000 times, and prints what a callback takes. See
// ../purego-pthread-key.md.
package main

import (
	"fmt"
	"time"

	"github.com/ebitengine/purego"
)

func main() {
	// CoreFoundation's dependencies are searched as well: libdispatch is one.
	lib := must(purego.Dlopen("/System/Library/Frameworks/CoreFoundation.framework/CoreFoundation", purego.RTLD_NOW))
	create, async := must(purego.Dlsym(lib, "dispatch_queue_create")), must(purego.Dlsym(lib, "dispatch_async_f"))
	queue, _, _ := purego.SyscallN(create, 0, 0)

	const calls = 10_000
	n, done := 0, make(chan struct{})
	callback := purego.NewCallback(func(uintptr) {
		if n++; n == calls {
			close(done)
		}
	})
	began := time.Now()
	for range calls {
		purego.SyscallN(async, queue, 0, callback)
	}
	<-done
	fmt.Println(time.Since(began)/calls, "for a callback")
}

func must(v uintptr, err error) uintptr {
	if err != nil {
		panic(err)
	}
	return v
}
