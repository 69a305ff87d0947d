// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

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
                 [--stats-interval SECONDS] [-v|--verbose] [--version] [-h|--help]

The network is that of a daemon that runs already: --daemon's, or the one that the
configuration file names for the mode, or one at a usual path. What is asked for here is
compared with what that daemon has:

    addresses    must be the daemon's: --vmnet-gateway, --vmnet-dhcp-end, --vmnet-mask
    isolation    the daemon's --isolate, for all its machines
    offload      the daemon's --offload, for all its machines
    statistics   not printed here: socket_vmnet2 status --watch SOCKET
    --network-id, --host-ip-address, --host-subnet-mask are refused: a daemon with
                 --vmnet-mode=host --vmnet-network-identifier=UUID, and its --daemon

The file is ~/.config/socket_vmnet2/vmnet-helper.conf or /etc/socket_vmnet2/vmnet-helper.conf,
with lines such as "shared = SOCKET" or "bridged.en0 = SOCKET".

`

// config is a command line.
type config struct {
	list            bool   // the interfaces, in place of serving a machine
	fd              int    // -1: not given
	socket          string // empty: not given
	interfaceID     proto.UUID
	mode            string // empty with a network of another name
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

// flags are vmnet-helper's options, and --daemon.
func (c *config) flags() []cli.Flag {
	hosts := func(name string) cli.Flag {
		return compat.Checked(name, "", func(string) error {
			return fmt.Errorf("--%s is the daemon's: start one with --vmnet-mode=host --vmnet-network-identifier=UUID and name its "+
				"socket with --daemon", name)
		})
	}
	return []cli.Flag{
		number("fd", &c.fd, 0, "f"),
		compat.Checked("socket", "", func(v string) error {
			if c.socket = v; v == "" || len(v) > compat.MaxSocketPath {
				return fmt.Errorf("invalid --socket %q: it has %d bytes, want 1 to %d", v, len(v), compat.MaxSocketPath)
			}
			return nil
		}, "s"),
		compat.Checked("interface-id", "", func(v string) (err error) {
			c.interfaceID, err = proto.ParseUUID(v)
			return err
		}, "i"),
		compat.Checked("operation-mode", "", func(v string) error {
			if c.mode = v; v != "shared" && v != "host" && v != "bridged" {
				return fmt.Errorf("invalid --operation-mode %q: want shared, host or bridged", v)
			}
			return nil
		}),
		&cli.StringFlag{Name: "shared-interface", Destination: &c.sharedInterface},
		address("start-address", &c.start),
		address("end-address", &c.end),
		address("subnet-mask", &c.mask),
		hosts("network-id"),
		hosts("host-ip-address"),
		hosts("host-subnet-mask"),
		&cli.BoolFlag{Name: "enable-tso", Destination: &c.tso},
		&cli.BoolFlag{Name: "enable-checksum-offload", Destination: &c.checksum},
		&cli.BoolFlag{Name: "enable-isolation", Destination: &c.isolation},
		&cli.BoolFlag{Name: "list-shared-interfaces", Destination: &c.list},
		&cli.StringFlag{Name: "network", Destination: &c.network},
		number("stats-interval", &c.statsInterval, 1),
		&cli.StringFlag{Name: "daemon", Destination: &c.daemon},
		&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Destination: &c.verbose},
		&cli.BoolFlag{Name: "version"},
		&cli.BoolFlag{Name: "help", Aliases: []string{"h"}},
	}
}

// number is an option with a decimal number of at least least.
func number(name string, n *int, least int64, letter ...string) cli.Flag {
	return compat.Checked(name, "", func(v string) error {
		x, err := strconv.ParseInt(v, 10, 32)
		if err != nil || x < least {
			return fmt.Errorf("invalid --%s %q: want a number from %d to %d", name, v, least, math.MaxInt32)
		}
		*n = int(x)
		return nil
	}, letter...)
}

// address is an option with an IPv4 address, which is read as C does it.
func address(name string, a *netip.Addr) cli.Flag {
	return compat.Checked(name, "", func(v string) error {
		var ok bool
		if *a, ok = compat.InetAton(v); !ok {
			return fmt.Errorf("invalid --%s %q: want an IPv4 address", name, v)
		}
		return nil
	})
}

// parse reads a command line without the program's name. With compat.ErrHelp or compat.ErrVersion the text is asked for.
func parse(args []string) (*config, error) {
	c := &config{fd: -1}
	_, posixly := os.LookupEnv("POSIXLY_CORRECT")
	set, err := compat.ParseFlags(c.flags(), args, posixly)
	switch {
	case err != nil:
		return nil, err
	case set.NArg() > 0:
		return nil, fmt.Errorf("what is %q for? there are only options", set.Arg(0))
	case c.list:
		return c, nil
	}
	return c, c.check()
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
	switch c.network {
	case "shared", "host":
		c.mode = c.network
	case "":
		c.mode = cmp.Or(c.mode, "shared")
	}
	return nil
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
