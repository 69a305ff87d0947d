// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"net"
	"net/netip"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

// A choice is the way in which the network is made.
type choice struct {
	api string // apiNetwork or apiInterface
	why string // for logs and status
	// fallback tells that the other way honours all options as well, so that it may be tried when this one fails.
	fallback bool
}

// Choose decides how the network is made, by what the framework has and what the options need, never by the version of
// macOS.
//
// vmnet_network_create gives all interfaces one network object of our own, but decides some things by itself: the host gets
// the first address, guests may get all others up to the last one, and there is no bridged mode. vmnet_start_interface
// takes other addresses and identities, but cannot switch off single services. An option that only one of them honours is
// an error where that one is missing or another option needs the other one; it is never left out silently.
//
// Where both will do, plain interfaces are taken, and the other way is for when they fail. The subnet of a network object
// stays registered when its owner is killed: on macOS 27.0 another program found vmnet_network_create refused for the same
// subnet 48 s later, twice of twice, since the system keeps the object as an idle one. A daemon that has crashed must come
// back with the subnet its guests have. (nicholas-lonsinger/kernova, docs/research/2026-09-22.)
func Choose(o Options, f api.Features) (choice, error) {
	o.setDefaults()
	network, iface := needNetwork(o), needInterface(o)
	switch {
	case len(network) > 0 && len(iface) > 0:
		return choice{}, fmt.Errorf("%s cannot be used together with %s: %s macOS 26's vmnet_network_create, %s vmnet_start_interface; leave one of the two out",
			printable.List(iface), printable.List(network), needs("the latter", network), needs("the former", iface))
	case len(network) > 0 && o.UseAPI == apiInterface:
		return choice{}, fmt.Errorf("--vmnet-api=interface cannot honour %s: use --vmnet-api=auto on macOS 26, or leave the option out", printable.List(network))
	case len(iface) > 0 && o.UseAPI == apiNetwork:
		return choice{}, fmt.Errorf("--vmnet-api=network cannot honour %s: use --vmnet-api=auto, or leave the option out", printable.List(iface))
	case !f.Networks && len(network) > 0:
		return choice{}, fmt.Errorf("%s needs macOS 26 or newer: the vmnet.framework of this macOS has no vmnet_network_create; leave the option out", printable.List(network))
	case !f.Networks && o.UseAPI == apiNetwork:
		return choice{}, errors.New("--vmnet-api=network needs macOS 26 or newer: the vmnet.framework of this macOS has no vmnet_network_create; use --vmnet-api=auto")
	}
	return pick(o, f, network, iface), nil
}

// pick chooses when nothing is in conflict, with the options that only one of the two honours.
func pick(o Options, f api.Features, byNetwork, byInterface []string) choice {
	switch {
	case o.UseAPI != apiAuto:
		return choice{api: o.UseAPI, why: "--vmnet-api=" + o.UseAPI}
	case len(byNetwork) > 0:
		return choice{api: apiNetwork, why: printable.List(byNetwork)}
	case len(byInterface) > 0:
		return choice{api: apiInterface, why: printable.List(byInterface)}
	case !f.Networks:
		return choice{api: apiInterface, why: "the vmnet.framework of this macOS has no vmnet_network_create"}
	// From here on vmnet_start_interface does better what was not quite asked for.
	case o.Gateway.IsValid() && o.DHCPEnd != lastHost(o.Subnet):
		return choice{api: apiInterface, why: fmt.Sprintf("--vmnet-gateway=%s makes %s the last address to lease", o.Gateway, o.DHCPEnd)}
	case o.Mode == network.ModeHost && o.Interface != "":
		return choice{api: apiInterface, why: "--vmnet-interface in host mode"}
	}
	return choice{api: apiInterface, why: "nothing asked for needs vmnet_network_create", fallback: true}
}

// needNetwork names the options that only vmnet_network_create honours.
func needNetwork(o Options) (names []string) {
	for _, x := range []struct {
		name  string
		given bool
	}{
		{"--vmnet-disable-dhcp", o.DisableDHCP},
		{"--vmnet-disable-nat44", o.DisableNAT44},
		{"--vmnet-disable-nat66", o.DisableNAT66},
		{"--vmnet-disable-dns-proxy", o.DisableDNSProxy},
		{"--vmnet-disable-ra", o.DisableRA},
		{"--vmnet-reserve", len(o.Reservations) > 0},
	} {
		if x.given {
			names = append(names, x.name)
		}
	}
	return names
}

// needInterface names the options that only vmnet_start_interface honours. As in socket_vmnet, some of them have no effect
// beside --vmnet-disable-dhcp, so they need nothing then.
func needInterface(o Options) (names []string) {
	if o.Mode == network.ModeBridged {
		names = append(names, "--vmnet-mode=bridged")
	}
	if o.Gateway.IsValid() && o.Gateway != firstHost(o.Subnet) {
		names = append(names, fmt.Sprintf("--vmnet-gateway=%s (which is not the first address of %s)", o.Gateway, o.Subnet))
	}
	if o.Isolate { // macOS 26 and 27 take the key for an interface on a network object, and isolate nothing
		names = append(names, "--isolate")
	}
	if o.DisableDHCP {
		return names
	}
	if o.Gateway.IsValid() && o.DHCPEndSet && o.DHCPEnd != lastHost(o.Subnet) {
		names = append(names, fmt.Sprintf("--vmnet-dhcp-end=%s (which is not the last address of %s)", o.DHCPEnd, o.Subnet))
	}
	if o.InterfaceID != [16]byte{} {
		names = append(names, "--vmnet-interface-id")
	}
	if o.NetworkID != [16]byte{} {
		names = append(names, "--vmnet-network-identifier")
	}
	return names
}

// needs is what with the verb for so many names.
func needs(what string, names []string) string {
	if len(names) > 1 {
		return what + " need"
	}
	return what + " needs"
}

// firstHost is the first address of p that a host can have.
func firstHost(p netip.Prefix) netip.Addr { return p.Masked().Addr().Next() }

// mask is the netmask of so many bits.
func mask(bits int) netip.Addr { return netip.AddrFrom4([4]byte(net.CIDRMask(bits, 32))) }

// maskBits is the length of a netmask.
func maskBits(m netip.Addr) int {
	b := m.As4()
	return bits.LeadingZeros32(^binary.BigEndian.Uint32(b[:]))
}

// lastHost is the last address of p that a host can have.
func lastHost(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As4()
	n := binary.BigEndian.Uint32(b[:]) | ^uint32(0)>>p.Bits()
	binary.BigEndian.PutUint32(b[:], n-1)
	return netip.AddrFrom4(b)
}
