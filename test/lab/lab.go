// SPDX-License-Identifier: Apache-2.0

// Package lab runs the daemon and real virtual machines for the demo and the end-to-end tests: it finds the tools, packs a
// guest image, boots QEMU guests and runs commands in them, and ends whatever it started.
//
// A guest is a Linux kernel with an image of busybox, the virtio modules and a helper program in memory. It has two serial
// ports: on the first one come the kernel's messages and the guest's own "E2E key=value" lines, on the second one the lab
// sends commands and reads what they print.
//
// Nothing here needs privileges, and KVM is never used: a /dev/kvm may exist and be unusable, so that every machine runs
// the same emulated way.
package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/state"
)

// An Options tells New what to use. The zero value of a field has the meaning its comment gives.
type Options struct {
	// Tools are the programs and images to use, from FindTools. Without a Helper, New builds one. With no tools at all there are no
	// guests.
	Tools Tools
	// Files are put into /lab of the guests' image, which is in the PATH of commands: the name there, and the file of the host. All of
	// them are executable.
	Files map[string]string
	// Progress is told what a daemon or a guest is doing, in a few words, for a human who waits. It may be called by
	// several goroutines at once. Nil: it is not told.
	Progress func(who, what string)
	// Line is told each line that a daemon prints, without its end, by one goroutine for each daemon. Nil means that the caller does not want
	// to know.
	Line func(text string)
}

// A Lab owns a temporary directory and every process started in it.
type Lab struct {
	// Dir is the lab's own directory. It is short, since the paths of unix sockets are, and removed by Close.
	Dir string

	opts  Options
	image string

	mu      sync.Mutex
	procs   []*Process
	ends    []func()
	sockets []string // of daemons
}

// New makes the directory and packs the guest image. The caller must Close the Lab.
func New(ctx context.Context, o Options) (*Lab, error) {
	if o.Progress == nil {
		o.Progress = func(string, string) {}
	}
	DropInherited()
	dir, err := os.MkdirTemp("", "e2e-")
	if err != nil {
		return nil, fmt.Errorf("create the lab's directory: %w", err)
	}
	l := &Lab{Dir: dir, opts: o, image: filepath.Join(dir, "image.cpio")}
	if o.Tools == (Tools{}) {
		return l, nil
	}
	if l.opts.Tools.Helper == "" {
		l.opts.Tools.Helper = l.Path("guest")
		err = BuildHelper(ctx, l.opts.Tools.Helper)
	}
	if err == nil {
		err = buildImage(l.image, l.opts.Tools, l.opts.Files)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Path is the path of a file called name in the lab's directory.
func (l *Lab) Path(name string) string { return filepath.Join(l.Dir, name) }

// Close kills every process that is still running, waits for them and removes the directory and the daemons' state.
func (l *Lab) Close() error {
	l.mu.Lock()
	ends, procs, sockets := l.ends, l.procs, l.sockets
	l.ends, l.procs, l.sockets = nil, nil, nil
	l.mu.Unlock()
	for _, end := range slices.Backward(ends) {
		end()
	}
	for _, p := range slices.Backward(procs) {
		p.Kill()
	}
	for _, s := range sockets { // what root's daemons without --state-dir have kept
		for _, dir := range []string{"/var/lib/socket_vmnet2", "/var/db/socket_vmnet2"} {
			_ = os.Remove(filepath.Join(dir, state.FileName(s)))
			_ = os.Remove(dir) // stays where there is more
		}
	}
	return os.RemoveAll(l.Dir)
}

// AtClose has f called by Close before anything is killed, the latest first.
func (l *Lab) AtClose(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends = append(l.ends, f)
}

// Together calls f for the numbers below n at the same time and returns all errors.
func Together(n int, f func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// TellEvery is how often a command that a person waits for says that it goes on.
const TellEvery = 5 * time.Second

// Every calls tell with the time that has passed, again and again, until the function that it returns is called.
func Every(period time.Duration, tell func(passed time.Duration)) (stop func()) {
	began, done := time.Now(), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(period)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				tell(time.Since(began).Round(time.Second))
			}
		}
	})
	return func() { close(done); wg.Wait() }
}
