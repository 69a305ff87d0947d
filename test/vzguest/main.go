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

// errNetworkLost is why a guest was stopped whose daemon has ended the connection.
var errNetworkLost = errors.New("the guest has lost its network")

// options are a command line.
type options struct {
	fd                      int // of the connected datagram socket; the lifeline has the next number
	kernel, initrd, cmdline string
	cpus, memory            uint // memory in MiB
	mac                     net.HardwareAddr
	timeout                 time.Duration
}

const usage = `Usage: socket_vmnet2 exec --dgram SOCKET -- vzguest --mac {mac} [OPTION]...
Boots a Linux guest in macOS's Virtualization framework, its network from a socket_vmnet2 daemon.
Standard input and output are the guest's console. It ends with the guest.

`

func main() {
	o, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = serve(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "vzguest:", err)
		os.Exit(1)
	}
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
	f.DurationVar(&o.timeout, "timeout", time.Hour, "stop the guest after this `TIME`, such as 5m")
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

// serve boots the guest. A signal, the timeout and the daemon's end of the connection stop it.
func serve(o options) error {
	link, lifeline := os.NewFile(uintptr(o.fd), "network"), os.NewFile(uintptr(o.fd+1), "lifeline")
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("the guest has not ended in %s", o.timeout))
	defer cancel()
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	go func() {
		_, _ = io.Copy(io.Discard, lifeline)
		lost(errNetworkLost)
	}()
	return boot(ctx, o, link)
}
