// SPDX-License-Identifier: Apache-2.0

package main

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
	"github.com/socket-vmnet2/socket_vmnet2/internal/state"
	"github.com/socket-vmnet2/socket_vmnet2/internal/usernet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// An opener starts a network that has been checked. What the network keeps over restarts is closed with it.
type opener func(ctx context.Context) (vnet.Network, error)

// prepareNetwork refuses what the back end cannot do, before anything is touched, and returns what starts the network.
func prepareNetwork(cfg *compat.Config, log *slog.Logger) (opener, error) {
	if resolveBackend(cfg) == compat.BackendVmnet {
		return prepareVmnet(cfg, log)
	}
	if err := checkUsernet(cfg); err != nil {
		return nil, err
	}
	return func(context.Context) (vnet.Network, error) { return openUsernet(cfg, log) }, nil
}

// checkUsernet refuses what the embedded network cannot do.
func checkUsernet(cfg *compat.Config) error {
	if cfg.Mode == vnet.ModeBridged {
		return usernet.ErrBridged
	}
	return nil
}

// openUsernet starts the embedded network.
func openUsernet(cfg *compat.Config, log *slog.Logger) (vnet.Network, error) {
	if cfg.NAT66Prefix.IsValid() {
		log.Warn("--vmnet-nat66-prefix has no effect: the embedded network has no IPv6")
	}
	if cfg.InterfaceIDSet {
		log.Warn("--vmnet-interface-id has no effect: the embedded network has no vmnet interface")
	}
	kept := state.Open(state.Options{Dir: stateDir(cfg, log), Socket: absolute(cfg.SocketPath), Log: log})
	log.Info("starting the embedded network", "mode", string(cfg.Mode))
	network, err := usernet.New(usernetOptions(cfg, kept, log))
	if err != nil {
		return nil, errors.Join(err, kept.Close())
	}
	return withState{network, kept}, nil
}

func usernetOptions(cfg *compat.Config, kept *state.File, log *slog.Logger) usernet.Options {
	o := usernet.Options{
		Mode:        cfg.Mode,
		Gateway:     cfg.Gateway,
		DHCPEnd:     cfg.DHCPEnd,
		DisableDHCP: cfg.DisableDHCP,
		DNSRecords:  map[string]netip.Addr{},
		MaxClients:  cfg.MaxClients,
		Leases:      kept,
		Log:         log,
	}
	if cfg.Subnet.IsValid() {
		o.PrefixLen = cfg.Subnet.Bits()
	}
	if cfg.NetworkIDSet {
		o.NetworkIdentifier = fmt.Sprintf("%x", cfg.NetworkID)
	}
	for _, r := range cfg.DNSRecords {
		o.DNSRecords[r.Name] = r.Addr
	}
	return o
}

// stateDir is where state is kept, empty if nowhere.
func stateDir(cfg *compat.Config, log *slog.Logger) string {
	dir, err := state.Dir(state.Environment{
		StateDir: cfg.StateDir,
		GOOS:     runtime.GOOS,
		EUID:     os.Geteuid(),
		PPID:     os.Getppid(),
		Getenv:   os.Getenv,
	})
	if err != nil {
		log.Warn("guests may get other addresses after a restart", "error", err)
	}
	return dir
}

// absolute is path from the root, as well as it can be told.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// withState is a network and the file it keeps its leases in.
type withState struct {
	*usernet.Network
	kept *state.File
}

// Close closes the network and writes what changed last.
func (n withState) Close() error { return errors.Join(n.Network.Close(), n.kept.Close()) }
