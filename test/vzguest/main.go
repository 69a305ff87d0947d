// SPDX-License-Identifier: Apache-2.0

// Command vzguest boots a Linux guest in macOS's Virtualization framework, with its network from a running daemon. It is
// for the tests that need a Mac: README.md beside it tells how it is built, signed and run.
//
// The guest's serial console is standard input and output; what vzguest itself has to say goes to standard error. It ends
// with the guest.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Exit codes. A signal's is 128 and its number.
const (
	exitStopped = 0 // the guest turned itself off
	exitFailed  = 1 // it could not be started, or failed
	exitUsage   = 2
	exitNetwork = 3 // the daemon, or the framework, ended the guest's connection
	exitTimeout = 124
	exitSignal  = 128
)

// The reasons to stop the guest. They are causes of a context.
var (
	errNetworkLost = errors.New("the guest has lost its network")
	errTimeout     = errors.New("the guest has not ended in time")
)

// errSignal is the signal that ended us.
type errSignal struct{ syscall.Signal }

func (e errSignal) Error() string { return "received signal " + e.String() }

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

// run is the program; it returns the exit code.
func run(args []string, log io.Writer) int {
	o, err := parse(args, log)
	if errors.Is(err, errHelp) {
		return 0
	}
	if err == nil {
		err = o.check()
	}
	if err != nil {
		_, _ = fmt.Fprintf(log, "vzguest: %v\n", err)
		return exitUsage
	}
	err = serve(o, log)
	if err != nil {
		_, _ = fmt.Fprintf(log, "vzguest: %v\n", err)
	}
	return exitCode(err)
}

// serve connects the guest and boots it.
func serve(o options, log io.Writer) error {
	if err := supported(); err != nil {
		return err
	}
	ctx, stop := untilSignal(o.timeout)
	defer stop(nil)
	n, err := connect(ctx, o)
	if err != nil {
		return err
	}
	defer n.close()
	n.watch(func() { stop(errNetworkLost) })
	_, _ = fmt.Fprintf(log, "vzguest: %s\n", n.describe(o.mac))
	return boot(ctx, o, n.file, n.reply.MTU)
}

// untilSignal returns a context that the first signal ends, or the timeout, or the function.
func untilSignal(timeout time.Duration) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	var late <-chan time.Time
	if timeout > 0 {
		late = time.After(timeout)
	}
	go func() {
		defer signal.Stop(signals)
		select {
		case s := <-signals:
			if s, ok := s.(syscall.Signal); ok {
				cancel(errSignal{s})
			}
		case <-late:
			cancel(errTimeout)
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// exitCode is the one for the way the guest ended.
func exitCode(err error) int {
	var s errSignal
	switch {
	case err == nil:
		return exitStopped
	case errors.As(err, &s):
		return exitSignal + int(s.Signal)
	case errors.Is(err, errTimeout):
		return exitTimeout
	case errors.Is(err, errNetworkLost):
		return exitNetwork
	}
	return exitFailed
}

// A guest without a MAC address of its own gets a random one, that nobody else can have been given.
func randomMAC(random []byte) net.HardwareAddr {
	mac := net.HardwareAddr(append([]byte(nil), random[:6]...))
	mac[0] = mac[0]&^1 | 2 // of one machine, locally administered
	return mac
}
