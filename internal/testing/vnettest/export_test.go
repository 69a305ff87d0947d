// SPDX-License-Identifier: Apache-2.0

package vnettest

import (
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

// SetPatience sets how long a network that DaemonNetwork made waits for its daemon to forget a client.
func SetPatience(n network.Network, d time.Duration) { n.(*daemonNetwork).witnesses.patience = d }
