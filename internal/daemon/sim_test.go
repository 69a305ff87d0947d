// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim

package daemon

import (
	"testing"

	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

func init() {
	backends["vmnet"] = func(t *testing.T, dir string) []string {
		t.Helper()
		return []string{"--backend=vmnet", "--vmnetsim-lib=" + vmnetsim.Library(t, vmnetsim.Full), "--vmnetsim-dir=" + dir}
	}
}
