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

// errNoVmnet says what to use as long as there is no vmnet back end in this program.
var errNoVmnet = errors.New("this version has no vmnet back end yet; use the embedded network with --backend=usernet")

// checkBackend refuses what no back end here can do, before anything is touched.
func checkBackend(cfg *compat.Config) error {
	if cfg.Backend.Resolve(runtime.GOOS) == compat.BackendUsernet && cfg.Mode == vnet.ModeBridged {
		return usernet.ErrBridged
	}
	if cfg.Backend == compat.BackendVmnet {
		return errNoVmnet
	}
	return nil
}

// openNetwork starts the network. The state it keeps is closed with it.
func openNetwork(_ context.Context, cfg *compat.Config, log *slog.Logger) (vnet.Network, error) {
	if cfg.Backend.Resolve(runtime.GOOS) != compat.BackendUsernet {
		return nil, errNoVmnet
	}
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
