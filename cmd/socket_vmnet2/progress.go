// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
)

// When a person is told that a command goes on: first, and from then on.
const (
	progressFirst = 2 * time.Second
	progressEvery = 5 * time.Second
)

// progress tells on a terminal that a command goes on, and with what, until the function that it returns is called.
func progress(env compat.IO, what string) (done func()) {
	f, ok := env.Stderr.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return func() {}
	}
	return progressOn(f, progressFirst, progressEvery, what)
}

// progressOn is progress on w, with these times.
func progressOn(w io.Writer, first, every time.Duration, what string) (done func()) {
	began, stop := time.Now(), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for next := time.NewTimer(first); ; next.Reset(every) {
			select {
			case <-stop:
				next.Stop()
				return
			case <-next.C:
				_, _ = fmt.Fprintf(w, "... %s, %.0f s so far\n", what, time.Since(began).Seconds())
			}
		}
	})
	return func() { close(stop); wg.Wait() }
}
