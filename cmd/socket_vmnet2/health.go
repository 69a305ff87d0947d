// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/freenet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/health"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// newHealth makes what tells the daemon's problems.
func (d *daemon) newHealth() *health.Monitor {
	return health.New(health.Options{
		Log:          d.log,
		Status:       d.describe,
		Addresses:    freenet.System,
		DHCPOff:      dhcpOff(d.cfg),
		OneInterface: d.cfg.VmnetInterfaces == compat.InterfacesOne,
	})
}

// dhcpOff is the option that makes a network without a DHCP server; empty if none was given.
func dhcpOff(cfg *compat.Config) string {
	switch {
	case cfg.DisableDHCP:
		return "--vmnet-disable-dhcp"
	case cfg.NetworkIDSet && cfg.Mode == vnet.ModeHost:
		return "--vmnet-network-identifier"
	}
	return ""
}
