// SPDX-License-Identifier: Apache-2.0

package handover

import "github.com/socket-vmnet2/socket_vmnet2/internal/darwinapi"

func init() { deadly = darwinapi.Deadly }
