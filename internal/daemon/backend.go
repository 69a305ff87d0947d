// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/inherit"
	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/usernet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/state"
)

// An opener starts a network that has been checked.
type opener func(ctx context.Context, o opening) (network.Network, error)

// An opening is how a network starts.
type opening struct {
	kept *state.File // what it keeps over restarts; closed after the network
	// again: for clients that are there already, which shall not go without a network because another program has taken a port that is
	// forwarded. gateway is the one that goes on, if there is one.
	again   bool
	gateway *usernet.Inherited
}

// prepareNetwork refuses what the back end cannot do, before anything is touched, and returns what starts the network.
func prepareNetwork(cfg *compat.Config, log *slog.Logger) (opener, error) {
	if cfg.Backend.Resolve(runtime.GOOS) == compat.BackendVmnet {
		return prepareVmnet(cfg, log)
	}
	if _, err := usernetOptions(cfg, nil).Plan(); err != nil {
		return nil, err
	}
	program, err := gatewayProgram(cfg)
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, how opening) (network.Network, error) {
		o := usernetOptions(cfg, log)
		o.Start, o.Leases, o.Inherited, o.LateForwards = program.Start, how.kept, how.gateway, how.again
		logWithoutEffect(cfg, log)
		log.Info("starting the embedded network", "mode", string(cfg.Mode))
		network, err := usernet.New(o)
		if err != nil {
			return nil, err // and no network that is a nil pointer
		}
		return network, nil
	}, nil
}

// OpenNetwork opens the network that a daemon with cfg would have. It keeps the state file open until it is closed.
func OpenNetwork(ctx context.Context, cfg *compat.Config, log *slog.Logger) (network.Network, error) {
	open, err := prepareNetwork(cfg, log)
	if err != nil {
		return nil, err
	}
	kept := openState(cfg, log)
	n := startLazy(ctx, kept, func(ctx context.Context) (network.Network, error) { return open(ctx, opening{kept: kept}) })
	if err := n.Wait(ctx); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// openState reads what the network of cfg kept when it ran last. The caller holds the socket's lock.
func openState(cfg *compat.Config, log *slog.Logger) *state.File {
	inherit.DropUnheeded()
	dir, err := state.Dir(cfg.StateDir, runtime.GOOS, os.Geteuid(), inherit.Getenv)
	if err != nil { // dir is empty then
		log.Warn("guests may get other addresses after a restart", "error", err)
	}
	return state.Open(state.Options{Dir: dir, Socket: absolute(cfg.SocketPath), Log: log})
}

// logWithoutEffect names the options that change nothing in the embedded network and need not: guests can do the same with
// and without them.
func logWithoutEffect(cfg *compat.Config, log *slog.Logger) {
	for _, o := range []struct {
		given     bool
		name, why string
	}{
		{cfg.NAT66Prefix.IsValid(), "--vmnet-nat66-prefix", "the embedded network has no IPv6"},
		{cfg.InterfaceID != [16]byte{}, "--vmnet-interface-id", "the embedded network has no vmnet interface"},
		{cfg.VmnetAPI != compat.APIAuto, "--vmnet-api", "the embedded network has no vmnet interface"},
		{cfg.VmnetInterfaces != compat.InterfacesClient, "--vmnet-interfaces", "the embedded network has no vmnet interface"},
		{cfg.Offload, "--offload", "the embedded network sends no frame longer than its MTU"},
	} {
		if o.given {
			log.Warn(o.name + " has no effect: " + o.why)
		}
	}
}

// usernetOptions is cfg as the embedded network takes it, but for the leases.
func usernetOptions(cfg *compat.Config, log *slog.Logger) usernet.Options {
	o := usernet.Options{
		Config: gateway.Config{
			Mode:            cfg.Mode,
			Gateway:         cfg.Gateway,
			DHCPEnd:         cfg.DHCPEnd,
			DisableDHCP:     cfg.DisableDHCP,
			Reservations:    cfg.Reservations,
			Forwards:        cfg.Forwards,
			MTU:             cfg.MTU,
			DisableNAT44:    cfg.DisableNAT44,
			DisableDNSProxy: cfg.DisableDNSProxy,
			Isolate:         cfg.Isolate,
			Private:         cfg.MetricsListen,
			DNSRecords:      map[string]netip.Addr{},

			DisableHostLoopback: !cfg.ReachHostLoopback(),
			LoopbackPorts:       cfg.LoopbackPorts,
		},
		Log: log,
	}
	if cfg.Subnet.IsValid() {
		o.PrefixLen = cfg.Subnet.Bits()
	}
	if cfg.NetworkID != [16]byte{} {
		o.NetworkIdentifier = fmt.Sprintf("%x", cfg.NetworkID)
	}
	for _, r := range cfg.DNSRecords {
		o.DNSRecords[r.Name] = r.Addr
	}
	return o
}

// gatewayProgram is this program as the embedded network's gateway. On Linux it is the very file that runs, also where another one
// took its path.
func gatewayProgram(cfg *compat.Config) (gateway.Program, error) {
	path, err := os.Executable()
	if err != nil {
		return gateway.Program{}, fmt.Errorf("find the program for the gateway: %w", err)
	}
	if self := "/proc/self/exe"; runtime.GOOS == "linux" {
		if _, err := os.Stat(self); err == nil {
			path = self
		}
	}
	p := gateway.Program{Path: path, Socket: absolute(cfg.SocketPath)}
	p.UID, p.GID, err = cfg.GatewayOwner()
	return p, err
}

// absolute is path from the root, as well as it can be told.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
