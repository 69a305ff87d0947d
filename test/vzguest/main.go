// SPDX-License-Identifier: Apache-2.0

// Command vzguest boots a Linux guest in macOS's Virtualization framework, with its network on a descriptor that socket_vmnet2 exec
// gives it. It is for the tests that need a Mac: README.md beside it tells how it is built, signed and run.
//
// The guest's serial console is standard input and output; what vzguest itself has to say goes to standard error. It ends
// with the guest.
package main

import (
	"context"
	"errors"
	"flag"
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

// options are a command line.
type options struct {
	fd                      int // of the connected datagram socket; the lifeline has the next number
	kernel, initrd, cmdline string
	cpus, memory            uint // memory in MiB
	mac                     net.HardwareAddr
	timeout                 time.Duration // 0: none
}

const usage = `Usage: socket_vmnet2 exec --dgram SOCKET -- vzguest --mac {mac} [OPTION]...
Boots a Linux guest in macOS's Virtualization framework, its network from a socket_vmnet2 daemon.
Standard input and output are the guest's console. It ends with the guest.

`

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

// run is the program; it returns the exit code.
func run(args []string, log io.Writer) int {
	o, err := parse(args, log)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		_, _ = fmt.Fprintf(log, "vzguest: %v; --help lists the options\n", err)
		return exitUsage
	}
	if err = serve(o); err != nil {
		_, _ = fmt.Fprintf(log, "vzguest: %v\n", err)
	}
	return exitCode(err)
}

// parse reads the command line. What the framework refuses it tells itself.
func parse(args []string, log io.Writer) (o options, err error) {
	f := flag.NewFlagSet("vzguest", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.IntVar(&o.fd, "fd", 3, "the descriptor of the network, a `NUMBER`; the next one is its lifeline")
	f.StringVar(&o.kernel, "kernel", "", "Linux kernel to boot, a `FILE`; on Apple silicon it must not be compressed")
	f.StringVar(&o.initrd, "initrd", "", "its initial RAM disk, a `FILE`")
	f.StringVar(&o.cmdline, "cmdline", "console=hvc0", "its command line, a `TEXT`")
	f.UintVar(&o.cpus, "cpus", 1, "`NUMBER` of processors")
	f.UintVar(&o.memory, "memory", 512, "memory in `MIB`")
	f.Func("mac", "the guest's Ethernet `ADDRESS`", func(text string) (err error) {
		o.mac, err = net.ParseMAC(text)
		return err
	})
	f.DurationVar(&o.timeout, "timeout", 0, "stop the guest after this `TIME`, such as 5m, and exit with 124")
	if err = f.Parse(args); errors.Is(err, flag.ErrHelp) {
		_, _ = io.WriteString(log, usage)
		f.SetOutput(log)
		f.PrintDefaults()
		return o, err
	}
	switch {
	case err != nil:
	case f.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	case o.kernel == "":
		err = errors.New("nothing to boot: give --kernel")
	case o.mac == nil:
		err = errors.New("--mac is missing: exec puts the address that the daemon gives in the place of {mac}")
	}
	return o, err
}

// serve boots the guest.
func serve(o options) error {
	if err := supported(); err != nil {
		return err
	}
	link, lifeline := os.NewFile(uintptr(o.fd), "network"), os.NewFile(uintptr(o.fd+1), "lifeline")
	ctx, stop := untilSignal(o.timeout)
	defer stop(nil)
	go watchLifeline(lifeline, func() { stop(errNetworkLost) })
	return boot(ctx, o, link)
}

// watchLifeline calls ended when the daemon ends the connection.
func watchLifeline(lifeline io.Reader, ended func()) {
	_, _ = io.Copy(io.Discard, lifeline)
	ended()
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
