// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
)

// usage is what -h and errors in the command line print, on stderr as vmnet-helper does.
const usage = `
Connect a virtual machine to the network of socket_vmnet2

    vmnet-helper (--fd FD|--socket SOCKET) [--interface-id UUID]
                 [--operation-mode shared|bridged|host] [--shared-interface NAME]
                 [--start-address ADDR] [--end-address ADDR] [--subnet-mask MASK]
                 [--enable-tso] [--enable-checksum-offload] [--enable-isolation]
                 [--network NAME] [--list-shared-interfaces] [--daemon SOCKET]
                 [-v|--verbose] [--version] [-h|--help]

The network is that of a daemon that runs already: --daemon's, or the one that the
configuration file names for the mode, or one at a usual path. What is asked for here is
compared with what that daemon has.

`

// An action is what is to be done in place of serving a machine.
type action int

const (
	serveMachine action = iota
	showHelp
	showVersion
	listInterfaces
)

// config is a command line.
type config struct {
	action          action
	fd              int    // -1: not given
	socket          string // empty: not given
	interfaceID     proto.UUID
	mode            string // empty only with network
	sharedInterface string
	start           netip.Addr // the zero Addr: not given, as the next two
	end             netip.Addr
	mask            netip.Addr
	tso             bool
	checksum        bool
	isolation       bool
	network         string
	daemon          string
	statsInterval   int // seconds
	verbose         bool
}

// options are vmnet-helper's, and --daemon.
var options = []compat.Item{
	{Name: "fd", Short: "f", Arg: "FD"},
	{Name: "socket", Short: "s", Arg: "SOCKET"},
	{Name: "interface-id", Short: "i", Arg: "UUID"},
	{Name: "operation-mode", Arg: "MODE"},
	{Name: "shared-interface", Arg: "NAME"},
	{Name: "start-address", Arg: "ADDR"},
	{Name: "end-address", Arg: "ADDR"},
	{Name: "subnet-mask", Arg: "MASK"},
	{Name: "network-id", Arg: "UUID"},
	{Name: "host-ip-address", Arg: "ADDR"},
	{Name: "host-subnet-mask", Arg: "MASK"},
	{Name: "enable-tso"},
	{Name: "enable-checksum-offload"},
	{Name: "enable-isolation"},
	{Name: "list-shared-interfaces"},
	{Name: "network", Arg: "NAME"},
	{Name: "stats-interval", Arg: "SECONDS"},
	{Name: "daemon", Arg: "SOCKET"},
	{Name: "verbose", Short: "v"},
	{Name: "version"},
	{Name: "help", Short: "h"},
}

// errAtOnce ends the parsing: what stands behind --help, --version and --list-shared-interfaces is not looked at.
var errAtOnce = errors.New("at once")

// parse reads a command line without the program's name.
func parse(args []string) (*config, error) {
	c := &config{fd: -1}
	_, posixly := os.LookupEnv("POSIXLY_CORRECT")
	operands, err := compat.Scan(options, args, posixly, c.set)
	if errors.Is(err, errAtOnce) {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	if len(operands) > 0 {
		return nil, fmt.Errorf("what is %q for? there are only options", operands[0])
	}
	return c, c.check()
}

// set takes one option.
func (c *config) set(it compat.Item, value string) (err error) {
	switch name := it.Name; name {
	case "fd":
		c.fd, err = number(name, value, 0)
	case "socket":
		c.socket, err = socketPath(value)
	case "interface-id":
		c.interfaceID, err = proto.ParseUUID(value)
	case "operation-mode":
		c.mode, err = modeOf(value)
	case "shared-interface":
		c.sharedInterface = value
	case "start-address":
		c.start, err = address(name, value)
	case "end-address":
		c.end, err = address(name, value)
	case "subnet-mask":
		c.mask, err = address(name, value)
	case "network-id", "host-ip-address", "host-subnet-mask":
		err = fmt.Errorf("--%s is the daemon's: start one with --vmnet-mode=host --vmnet-network-identifier=UUID and name its "+
			"socket with --daemon", name)
	case "network":
		c.network = value
	case "stats-interval":
		c.statsInterval, err = number(name, value, 1)
	case "daemon":
		c.daemon = value
	default:
		err = c.setFlag(name)
	}
	return err
}

// setFlag takes an option without an argument.
func (c *config) setFlag(name string) error {
	switch name {
	case "enable-tso":
		c.tso = true
	case "enable-checksum-offload":
		c.checksum = true
	case "enable-isolation":
		c.isolation = true
	case "verbose":
		c.verbose = true
	case "list-shared-interfaces":
		c.action = listInterfaces
		return errAtOnce
	case "version":
		c.action = showVersion
		return errAtOnce
	case "help":
		c.action = showHelp
		return errAtOnce
	}
	return nil
}

// check finds what does not go together.
func (c *config) check() error {
	addresses := 0
	for _, a := range []netip.Addr{c.start, c.end, c.mask} {
		if a.IsValid() {
			addresses++
		}
	}
	switch {
	case c.network != "" && (c.mode != "" || c.sharedInterface != "" || addresses > 0):
		return errors.New("--network conflicts with --operation-mode, --shared-interface and the address options")
	case addresses%3 != 0:
		return errors.New("--start-address, --end-address and --subnet-mask must be given together, or none of them")
	case c.mode == "bridged" && c.sharedInterface == "":
		return errors.New("--operation-mode=bridged needs --shared-interface; --list-shared-interfaces shows them")
	case c.mode == "bridged" && c.isolation:
		return errors.New("--enable-isolation conflicts with --operation-mode=bridged")
	case c.fd == -1 && c.socket == "":
		return errors.New("either --fd or --socket is needed")
	case c.fd != -1 && c.socket != "":
		return errors.New("--fd conflicts with --socket")
	}
	if c.mode == "" && c.network == "" {
		c.mode = "shared"
	}
	return nil
}

// number reads a decimal number of at least least.
func number(name, value string, least int) (int, error) {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < int64(least) {
		return 0, fmt.Errorf("invalid --%s %q: want a number from %d to %d", name, value, least, math.MaxInt32)
	}
	return int(n), nil
}

// modeOf reads an operation mode.
func modeOf(value string) (string, error) {
	switch value {
	case "shared", "host", "bridged":
		return value, nil
	}
	return "", fmt.Errorf("invalid --operation-mode %q: want shared, host or bridged", value)
}

// address reads an IPv4 address as C does.
func address(name, value string) (netip.Addr, error) {
	a, ok := compat.InetAton(value)
	if !ok {
		return a, fmt.Errorf("invalid --%s %q: want an IPv4 address", name, value)
	}
	return a, nil
}

// versionText is what --version prints. Minikube reads it as YAML and takes the version for vmnet-helper's, from 0.9.0 of which
// it does without root on macOS 26: so it is the one whose options and output this program has, with ours behind the plus.
func versionText(ours string) string {
	ours = strings.Trim(strings.Map(func(r rune) rune {
		if r == '-' || r == '.' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '-'
	}, ours), ".")
	return fmt.Sprintf("version: v0.13.0+socket-vmnet2.%s\ncommit: %s\n", ours, ours)
}
