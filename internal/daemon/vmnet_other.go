// SPDX-License-Identifier: Apache-2.0

//go:build !darwin && !vmnetsim

package daemon

import (
	"errors"
	"log/slog"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet"
)

// prepareVmnet says what there is in place of vmnet.framework.
func prepareVmnet(*compat.Config, *slog.Logger) (opener, error) {
	return nil, errors.New("vmnet needs macOS: leave --backend out or use --backend=usernet, the embedded network")
}

// ListInterfaces is for bridged mode, which only vmnet has.
func ListInterfaces(*compat.Config) ([]string, error) {
	return nil, errors.New("--list-interfaces lists what vmnet can bridge to, and vmnet needs macOS")
}

// VmnetStatus is false: there is no network of vmnet.
func VmnetStatus(network.Network) (s vmnet.Status, ok bool) { return s, false }
