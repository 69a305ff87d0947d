// SPDX-License-Identifier: Apache-2.0

// Command probe is a program for macOS that the tests of the loader run: each word does one thing and prints what it sees.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

var words = map[string]func(args []string) error{
	"show":     show,
	"exec":     execute,
	"spawn":    spawn,
	"fault":    fault,
	"threads":  threads,
	"preempt":  preempt,
	"forkexec": forks,
}

func main() {
	if len(os.Args) < 2 || words[os.Args[1]] == nil {
		fmt.Println("which word?")
		os.Exit(2)
	}
	if err := words[os.Args[1]](os.Args[2:]); err != nil {
		var e syscall.Errno
		if errors.As(err, &e) {
			fmt.Println("errno", int(e))
		}
		fmt.Println(err)
		os.Exit(1)
	}
}

// show prints how it was started.
func show(args []string) error {
	p, err := os.Executable()
	fmt.Printf("%s %s argv0=%s args=%q executable=%s\n", runtime.GOOS, runtime.GOARCH, os.Args[0], args, p)
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, "PROBE") || strings.HasPrefix(v, "MACHRUN") {
			fmt.Println(v)
		}
	}
	return err
}

// execute becomes a program: path, argv.
func execute(args []string) error { return syscall.Exec(args[0], args[1:], []string{"PROBE=executed"}) }

// spawn runs a child: path, arguments.
func spawn(args []string) error {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err := cmd.Run()
	fmt.Println("child:", cmd.ProcessState)
	return err
}

// fault recovers from a nil dereference.
func fault([]string) error {
	defer func() { fmt.Println("recovered:", recover()) }()
	var p *int
	*p = 1
	return nil
}

// threads makes many, which end.
func threads([]string) error {
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(runtime.LockOSThread) // without the way back: the thread ends
	}
	wg.Wait()
	fmt.Println("threads ended")
	return nil
}

// preempt stops a loop without calls for a collection, which takes a signal, and computes with floating point meanwhile.
func preempt([]string) error {
	done := make(chan float64)
	var stop atomic.Bool
	go func() {
		x, n := 1.0, 0
		for ; n < 1<<62 && !stop.Load(); n++ {
			x = x*0.5 + 0.5
		}
		done <- x
	}()
	for range 20 {
		runtime.GC()
	}
	stop.Store(true)
	fmt.Println("preempted:", <-done)
	return nil
}

// forks starts children from many goroutines.
func forks(args []string) error {
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for range cap(errs) {
		wg.Go(func() { errs <- exec.Command(args[0]).Run() })
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	fmt.Println("all ran")
	return nil
}
