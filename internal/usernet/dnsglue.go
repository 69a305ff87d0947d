// SPDX-License-Identifier: Apache-2.0

package usernet

import "github.com/socket-vmnet2/socket_vmnet2/internal/bridge"

func (n *Network) serveDNS(_ bridge.PortID, c *guestConn) {}
