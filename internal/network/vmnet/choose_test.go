// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

var (
	macOS26 = api.Features{Networks: true}
	macOS15 = api.Features{}
)

// addressed is what the command line makes of --vmnet-gateway=gw, --vmnet-mask and, if end is not empty, --vmnet-dhcp-end.
// derived is the end that it computes without.
func addressed(mode network.Mode, subnet, gw, end, derived string) Options {
	o := inMode(mode)
	o.Subnet, o.Gateway, o.DHCPEnd = netip.MustParsePrefix(subnet), netip.MustParseAddr(gw), netip.MustParseAddr(derived)
	if end != "" {
		o.DHCPEnd, o.DHCPEndSet = netip.MustParseAddr(end), true
	}
	return o
}

func home() Options {
	return addressed(network.ModeShared, "192.168.105.0/24", "192.168.105.1", "", "192.168.105.254")
}

// onNetwork is home by way of a network object.
func onNetwork() Options {
	o := home()
	o.UseAPI = apiNetwork
	return o
}

func bridged() Options {
	o := inMode(network.ModeBridged)
	o.Interface = "en0"
	return o
}

// inMode leaves all but the mode to macOS.
func inMode(m network.Mode) Options { return Options{NetworkConfig: api.NetworkConfig{Mode: m}} }

// with changes o.
func with(o Options, change func(*Options)) Options {
	change(&o)
	return o
}

func someReservation() []network.Reservation {
	return []network.Reservation{{MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, Addr: netip.MustParseAddr("192.168.105.9")}}
}

func someForward() []network.Forward {
	return []network.Forward{{Proto: "tcp", HostPort: 8080, Guest: netip.MustParseAddrPort("192.168.105.9:80")}}
}

// TestChoose has every class of options, on macOS 26 and before. An error is told by what it must mention.
func TestChoose(t *testing.T) {
	id := [16]byte{1}
	type want struct {
		api      string
		fallback bool
		mention  string // several, separated by "|"
	}
	either, onlyNetwork, iface, same := want{api: apiInterface, fallback: true}, want{api: apiNetwork}, want{api: apiInterface}, want{}
	need26 := func(flag string) want { return want{mention: flag + "|macOS 26|leave the option out"} }
	clash := func(a, b string) want {
		return want{mention: a + "|" + b + "|vmnet_network_create|vmnet_start_interface|leave one"}
	}
	otherEnd := addressed(network.ModeShared, "10.0.0.0/24", "10.0.0.1", "10.0.0.99", "10.0.0.254")
	derivedEnd := addressed(network.ModeShared, "10.0.0.0/16", "10.0.0.1", "", "10.0.0.254")
	otherGateway := addressed(network.ModeShared, "10.0.0.0/24", "10.0.0.9", "", "10.0.0.254")
	tests := []struct {
		name     string
		o        Options
		new, old want
	}{
		{"default addresses, /24", home(), either, iface},
		{"default addresses, /16, end given", addressed(network.ModeShared, "10.0.0.0/16", "10.0.0.1", "10.0.255.254", "10.0.0.254"), either, iface},
		{"/16 whose derived end is not the last", derivedEnd, iface, iface},
		{"other gateway", otherGateway, iface, iface},
		{"other end", otherEnd, iface, iface},
		{"interface id", with(home(), func(o *Options) { o.InterfaceID = id }), iface, iface},
		{"network identifier", with(home(), func(o *Options) { o.NetworkID = id }), iface, iface},
		{"way out, shared", with(home(), func(o *Options) { o.Interface = "en1" }), either, iface},
		{"way out, host", with(inMode(network.ModeHost), func(o *Options) { o.Interface = "en1" }), iface, iface},
		{"what both honour", with(home(), func(o *Options) {
			o.NAT66Prefix, o.MTU, o.Offload = netip.MustParsePrefix("fd00:1::/64"), 9000, true
			o.Interfaces, o.Forwards = interfacesOne, someForward()
		}), either, iface},
		{"isolation", with(home(), func(o *Options) { o.Isolate = true }), iface, iface},
		{"nothing but the socket", inMode(network.ModeShared), either, iface},

		{"no DHCP", with(home(), func(o *Options) { o.DisableDHCP = true }), onlyNetwork, need26("--vmnet-disable-dhcp")},
		{"no NAT44", with(home(), func(o *Options) { o.DisableNAT44 = true }), onlyNetwork, need26("--vmnet-disable-nat44")},
		{"no NAT66", with(home(), func(o *Options) { o.DisableNAT66 = true }), onlyNetwork, need26("--vmnet-disable-nat66")},
		{"no DNS proxy", with(home(), func(o *Options) { o.DisableDNSProxy = true }), onlyNetwork, need26("--vmnet-disable-dns-proxy")},
		{"no RA", with(home(), func(o *Options) { o.DisableRA = true }), onlyNetwork, need26("--vmnet-disable-ra")},
		{"reservation", with(home(), func(o *Options) { o.Reservations = someReservation() }), onlyNetwork, need26("--vmnet-reserve")},
		{"two of them", with(home(), func(o *Options) { o.DisableRA, o.DisableNAT66 = true, true }), onlyNetwork, need26("--vmnet-disable-nat66 and --vmnet-disable-ra")},
		{"network-only beside a derived end", with(derivedEnd, func(o *Options) { o.DisableRA = true }), onlyNetwork, need26("--vmnet-disable-ra")},

		{"both kinds", with(otherEnd, func(o *Options) { o.DisableNAT44 = true }), clash("--vmnet-dhcp-end=10.0.0.99", "--vmnet-disable-nat44"), same},
		{"other gateway without DHCP", with(otherGateway, func(o *Options) { o.DisableDHCP = true }), clash("--vmnet-gateway=10.0.0.9", "--vmnet-disable-dhcp"), same},
		{"what has no effect without DHCP", with(addressed(network.ModeHost, "10.0.0.0/24", "10.0.0.1", "10.0.0.99", "10.0.0.254"), func(o *Options) {
			o.DisableDHCP, o.InterfaceID, o.NetworkID = true, id, id
		}), onlyNetwork, need26("--vmnet-disable-dhcp")},

		{"network asked for", with(home(), func(o *Options) { o.UseAPI = apiNetwork }), onlyNetwork, want{mention: "--vmnet-api=network|macOS 26"}},
		{"network asked for, bridged", with(bridged(), func(o *Options) { o.UseAPI = apiNetwork }), want{mention: "--vmnet-api=network|--vmnet-mode=bridged"}, same},
		{"interface asked for", with(home(), func(o *Options) { o.UseAPI = apiInterface }), iface, iface},
		{"interface asked for, no DHCP", with(home(), func(o *Options) { o.UseAPI, o.DisableDHCP = apiInterface, true }), want{mention: "--vmnet-api=interface|--vmnet-disable-dhcp"}, same},

		{"bridged", bridged(), iface, iface},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, x := range []struct {
				os   string
				f    api.Features
				want want
			}{{"macOS 26", macOS26, tt.new}, {"macOS 15", macOS15, tt.old}} {
				if x.want == same {
					x.want = tt.new
				}
				c, err := Choose(tt.o, x.f)
				if x.want.mention == "" {
					require.NoError(t, err, x.os)
					assert.Equal(t, x.want.api, c.api, x.os)
					assert.Equal(t, x.want.fallback, c.fallback, x.os)
					assert.NotEmpty(t, c.why, x.os)
					continue
				}
				require.Error(t, err, x.os)
				assert.Equal(t, choice{}, c, x.os)
				for m := range strings.SplitSeq(x.want.mention, "|") {
					assert.ErrorContains(t, err, m, x.os)
				}
			}
		})
	}
}
