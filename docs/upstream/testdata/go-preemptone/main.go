// SPDX-License-Identifier: Apache-2.0

//go:build ignore

// This program calls back into Go on threads that Go has not made, collects garbage, and replaces itself by /bin/echo. With Go
// 1.26 on macOS, syscall.Exec hangs. See ../../go-preemptone.md.
package main

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/ebitengine/purego"
)

func main() {
	// CoreFoundation's dependencies are searched as well: libdispatch is one.
	lib := must(purego.Dlopen("/System/Library/Frameworks/CoreFoundation.framework/CoreFoundation", purego.RTLD_NOW))
	create, async := must(purego.Dlsym(lib, "dispatch_queue_create")), must(purego.Dlsym(lib, "dispatch_async_f"))
	queue, _, _ := purego.SyscallN(create, 0, 0)

	called := make(chan struct{})
	callback := purego.NewCallback(func(uintptr) { called <- struct{}{} })
	for range 100 {
		purego.SyscallN(async, queue, 0, callback)
		<-called
		runtime.GC() // asks every running P to preempt, also one whose M is about to leave for, or back in, the extra list
	}
	time.AfterFunc(5*time.Second, func() {
		fmt.Println("syscall.Exec hangs")
		os.Exit(1)
	})
	panic(syscall.Exec("/bin/echo", []string{"echo", "syscall.Exec works"}, nil))
}

func must(v uintptr, err error) uintptr {
	if err != nil {
		panic(err)
	}
	return v
}
