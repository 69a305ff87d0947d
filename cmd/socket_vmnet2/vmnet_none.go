// SPDX-License-Identifier: Apache-2.0

//go:build !darwin && !vmnetsim

package main

import (
	"errors"
	"log/slog"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
)

// prepareVmnet says what there is in place of vmnet.framework.
func prepareVmnet(*compat.Config, *slog.Logger) (opener, error) {
	return nil, errors.New("vmnet needs macOS; leave --backend away or use --backend=usernet, the embedded network")
}

// listInterfaces is for bridged mode, which only vmnet has.
func listInterfaces(*compat.Config) ([]string, error) {
	return nil, errors.New("--list-interfaces lists what vmnet can bridge to, and vmnet needs macOS")
}
