// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/passing/proto"
)

// The ways to the network.
const (
	byAttach = "dgram" // the daemon makes a pair of sockets and passes one to us
	byAdopt  = "adopt" // we make it and pass one to the daemon
)

// defaultCmdline has the kernel use the framework's console.
const defaultCmdline = "console=hvc0"

// Limits that are plausible anywhere; the framework has its own.
const (
	minMemory, maxMemory = 64, 1 << 20 // MiB
	maxCPUs              = 256
)

var errHelp = errors.New("help was asked for")

// options are a command line.
type options struct {
	socket, transport, name string
	kernel, initrd, cmdline string
	disk, efiStore          string
	cpus, memory            uint // memory in MiB
	mac                     net.HardwareAddr
	timeout                 time.Duration // 0: none
}

const usage = `Usage: vzguest [OPTION]...
Boots a Linux guest in macOS's Virtualization framework, its network from a socket_vmnet2 daemon.
Standard input and output are the guest's console. It ends with the guest.

`

// parse reads the command line. Only its form is checked.
func parse(args []string, log io.Writer) (options, error) {
	var o options
	var mac string
	f := flag.NewFlagSet("vzguest", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&o.socket, "socket", "/var/run/socket_vmnet", "the daemon's `SOCKET`")
	f.StringVar(&o.transport, "transport", byAttach, "`WAY` to the network: dgram asks the daemon for a descriptor, adopt hands one over")
	f.StringVar(&o.name, "name", "vzguest", "`NAME` that the daemon logs")
	f.StringVar(&o.kernel, "kernel", "", "Linux kernel to boot, a `FILE`; on Apple silicon it must not be compressed")
	f.StringVar(&o.initrd, "initrd", "", "its initial RAM disk, a `FILE`")
	f.StringVar(&o.cmdline, "cmdline", "", "its command line, a `TEXT` (default \""+defaultCmdline+"\")")
	f.StringVar(&o.disk, "disk", "", "disk image, a raw `FILE`; booted by EFI where there is no --kernel")
	f.StringVar(&o.efiStore, "efi-store", "", "`FILE` of EFI variables, made where there is none (default: a temporary one)")
	f.UintVar(&o.cpus, "cpus", 1, "`NUMBER` of processors")
	f.UintVar(&o.memory, "memory", 512, "memory in `MIB`")
	f.StringVar(&mac, "mac", "", "the guest's Ethernet address (default: a random one)")
	f.DurationVar(&o.timeout, "timeout", 0, "stop the guest after this `TIME`, such as 5m, and exit with 124")
	err := f.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		_, _ = io.WriteString(log, usage)
		f.SetOutput(log)
		f.PrintDefaults()
		return o, errHelp
	}
	if err == nil && f.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if err == nil {
		o.mac, err = parseMAC(mac)
	}
	if err != nil {
		return o, fmt.Errorf("%w; --help lists the options", err)
	}
	return o, nil
}

// parseMAC reads an Ethernet address, or makes one.
func parseMAC(text string) (net.HardwareAddr, error) {
	if text != "" {
		m, err := proto.ParseMAC(text)
		if err != nil {
			return nil, fmt.Errorf("--mac=%s: %w", text, err)
		}
		return m, nil
	}
	random := make([]byte, 6)
	_, _ = rand.Read(random) // never fails
	return randomMAC(random), nil
}

// check checks the values, and that the files are there.
func (o *options) check() error {
	switch {
	case o.transport != byAttach && o.transport != byAdopt:
		return fmt.Errorf("--transport=%s: use %s or %s", o.transport, byAttach, byAdopt)
	case o.kernel == "" && o.disk == "":
		return errors.New("nothing to boot: give --kernel or --disk")
	case o.kernel == "" && (o.initrd != "" || o.cmdline != ""):
		return errors.New("--initrd and --cmdline need --kernel")
	case o.kernel != "" && o.efiStore != "":
		return errors.New("--efi-store is for a guest without --kernel")
	case o.cpus < 1 || o.cpus > maxCPUs:
		return fmt.Errorf("--cpus=%d: use 1 to %d", o.cpus, maxCPUs)
	case o.memory < minMemory || o.memory > maxMemory:
		return fmt.Errorf("--memory=%d: use %d to %d MiB", o.memory, minMemory, maxMemory)
	case o.timeout < 0:
		return fmt.Errorf("--timeout=%s is negative", o.timeout)
	}
	if o.kernel != "" && o.cmdline == "" {
		o.cmdline = defaultCmdline
	}
	for _, path := range []string{o.kernel, o.initrd, o.disk} {
		if path == "" {
			continue
		}
		fi, err := os.Stat(path)
		if err == nil && !fi.Mode().IsRegular() && !strings.HasPrefix(path, "/dev/") {
			err = fmt.Errorf("%s is no file", path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
