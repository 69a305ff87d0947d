// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim

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
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/ffi"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnettest/fakehost"
)

// resolveBackend takes vmnet wherever there is a simulator of it.
func resolveBackend(cfg *compat.Config) compat.Backend {
	if cfg.Backend == compat.BackendAuto && cfg.Simulator.Lib != "" {
		return compat.BackendVmnet
	}
	return cfg.Backend.Resolve(runtime.GOOS)
}

// openFramework loads the simulator.
func openFramework(cfg *compat.Config) (api.API, error) {
	if cfg.Simulator.Lib == "" {
		return nil, errors.New("this build is for tests: name the simulator with --vmnetsim-lib=FILE")
	}
	if cfg.Simulator.Dir != "" {
		if err := os.MkdirAll(cfg.Simulator.Dir, 0o700); err != nil {
			return nil, err
		}
	}
	return ffi.OpenSimulator(cfg.Simulator.Lib, cfg.Simulator.Dir)
}

// startHost is the host's side of the simulated network. It ends with the function returned.
func startHost(cfg *compat.Config, framework api.API, info vnet.NetworkInfo, log *slog.Logger) (func(), error) {
	simulator, ok := framework.(*ffi.API)
	if !ok || !info.Gateway.IsValid() { // bridged: the host has no part in it
		return nil, nil
	}
	host := fakehost.New(fakehost.Options{
		Subnet:       info.Subnet,
		Gateway:      info.Gateway,
		DHCPStart:    info.DHCPStart,
		DHCPEnd:      info.DHCPEnd,
		Spread:       true,
		Silent:       func() bool { return bootpdBlocked(cfg) },
		MTU:          info.MTU,
		Reservations: cfg.Reservations,
		Log:          log,
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := host.Run(ctx, hostPort{simulator, info.Subnet.Addr()}); err != nil {
			log.Error("the simulated host ended", "error", err)
		}
	})
	return func() {
		cancel()
		running.Wait()
	}, nil
}

// bootpdBlocked tells whether the simulated host leaves DHCP unanswered, which a file in its directory has it do.
func bootpdBlocked(cfg *compat.Config) bool {
	if cfg.Simulator.Dir == "" {
		return false
	}
	_, err := os.Stat(filepath.Join(cfg.Simulator.Dir, "bootpd-blocked"))
	return err == nil
}

// hostPort is the host's port on the simulator's bridge.
type hostPort struct {
	framework *ffi.API
	subnet    netip.Addr // zero: the only network
}

// Read implements fakehost.IO.
func (p hostPort) Read(buf []byte, timeout time.Duration) (int, error) {
	n, err := p.framework.HostRead(p.subnet, buf, timeout)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", fakehost.ErrNoNetwork, err)
	}
	return n, nil
}

// Write implements fakehost.IO.
func (p hostPort) Write(frame []byte) error {
	if err := p.framework.HostWrite(p.subnet, frame); err != nil {
		return fmt.Errorf("%w: %w", fakehost.ErrNoNetwork, err)
	}
	return nil
}
