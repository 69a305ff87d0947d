// SPDX-License-Identifier: Apache-2.0

//go:build darwin || vmnetsim

package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

// prepareVmnet finds vmnet.framework and checks that it can do what cfg asks for. Nothing is started.
func prepareVmnet(cfg *compat.Config, log *slog.Logger) (opener, error) {
	// vmnet.h demands private addresses (RFC 1918) for a network's first and last.
	if cfg.Gateway.IsValid() && !(cfg.Gateway.IsPrivate() && cfg.DHCPEnd.IsPrivate()) {
		return nil, fmt.Errorf("vmnet's addresses must be private ones, in 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16, and %s to %s are not; choose another --vmnet-gateway",
			cfg.Gateway, cfg.DHCPEnd)
	}
	for _, f := range cfg.Forwards {
		if f.HostIP.IsValid() && !f.HostIP.IsUnspecified() {
			return nil, fmt.Errorf("--vmnet-forward=%s: vmnet leads ports of all addresses of this host to guests; leave %s out, or use --backend=usernet", f, f.HostIP)
		}
	}
	framework, err := openFramework(cfg)
	if err != nil {
		return nil, err
	}
	o := vmnetOptions(cfg)
	o.API, o.Log = framework, log
	if _, err := vmnet.Choose(o, framework.Features()); err != nil {
		return nil, err
	}
	if !o.RetryAll { // to a job of launchd an interface may still come
		if err := checkInterface(cfg, framework); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context, how opening) (network.Network, error) {
		o.Identity = how.kept
		return openVmnet(ctx, cfg, o)
	}, nil
}

// checkInterface refuses a name that bridged mode does not take. vmnet itself only says that some value is wrong.
func checkInterface(cfg *compat.Config, framework api.API) error {
	if cfg.Mode != network.ModeBridged {
		return nil
	}
	names, err := framework.SharedInterfaces()
	if err != nil || len(names) == 0 || slices.Contains(names, cfg.Interface) {
		return nil // without a list vmnet decides
	}
	return fmt.Errorf("--vmnet-interface=%s cannot be bridged to: this host has %s", cfg.Interface, strings.Join(names, ", "))
}

// openVmnet starts the network.
func openVmnet(ctx context.Context, cfg *compat.Config, o vmnet.Options) (network.Network, error) {
	if cfg.HostLoopback != "" {
		o.Log.Warn("--host-loopback has no effect: guests on vmnet never reach the host's loopback")
	}
	if len(cfg.DNSRecords) > 0 {
		o.Log.Warn("--dns-record has no effect: names in a network of vmnet are macOS's own")
	}
	network, err := vmnet.New(ctx, o)
	if err != nil {
		return nil, err
	}
	warnForwards(cfg, network.Info(), o.Log)
	return network, nil
}

// warnForwards names the forwards that lead to no guest, which shows only when macOS has chosen the network. The others are
// none the worse for it.
func warnForwards(cfg *compat.Config, info network.Info, log *slog.Logger) {
	if !info.Subnet.IsValid() {
		return
	}
	for _, f := range cfg.Forwards {
		if a := f.Guest.Addr(); !info.Subnet.Contains(a) || a == info.Gateway {
			log.Warn(fmt.Sprintf("--vmnet-forward=%s leads to no guest: macOS chose the network %s; ask for one with --vmnet-gateway", f, info.Subnet))
		}
	}
}

// vmnetOptions are the options of the command line.
func vmnetOptions(cfg *compat.Config) vmnet.Options {
	o := vmnet.Options{
		NetworkConfig: api.NetworkConfig{
			Mode:            cfg.Mode,
			Subnet:          cfg.Subnet,
			NAT66Prefix:     cfg.NAT66Prefix,
			DisableDHCP:     cfg.DisableDHCP,
			DisableNAT44:    cfg.DisableNAT44,
			DisableNAT66:    cfg.DisableNAT66,
			DisableDNSProxy: cfg.DisableDNSProxy,
			DisableRA:       cfg.DisableRA,
			MTU:             cfg.MTU,
			Reservations:    cfg.Reservations,
			Forwards:        cfg.Forwards,
		},
		Interface:   cfg.Interface,
		Gateway:     cfg.Gateway,
		DHCPEnd:     cfg.DHCPEnd,
		DHCPEndSet:  cfg.DHCPEndSet,
		InterfaceID: cfg.InterfaceID,
		NetworkID:   cfg.NetworkID,
		Isolate:     cfg.Isolate,
		Offload:     cfg.Offload,
		UseAPI:      cfg.VmnetAPI,
		Interfaces:  cfg.VmnetInterfaces,
	}
	if os.Getppid() == 1 { // launchd would only start it again, with pauses that grow
		o.Patience, o.RetryAll = vmnet.LaunchdPatience, true
	}
	return o
}

// ListInterfaces are the interfaces of this host that bridged mode takes.
func ListInterfaces(cfg *compat.Config) ([]string, error) {
	framework, err := openFramework(cfg)
	if err != nil {
		return nil, err
	}
	return framework.SharedInterfaces()
}

// VmnetStatus is what only a network of vmnet tells of itself; false of any other.
func VmnetStatus(n network.Network) (vmnet.Status, bool) {
	if l, ok := n.(*lazyNetwork); ok {
		n = l.opened()
	}
	v, ok := n.(*vmnet.Network)
	if !ok {
		return vmnet.Status{}, false
	}
	return v.Status(), true
}
