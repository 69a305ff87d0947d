// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"path/filepath"
)

// relayVmnetC is csrc/vmnetc.c: what the daemon is held against where its clients have interfaces of a simulated vmnet. Both
// have the simulator in their own process.
const relayVmnetC = "vmnet-c"

// vmnetCTarget is the inverse of 1.5, which is how much CPU time the daemon may take for a frame in comparison.
const vmnetCTarget = 0.67

// buildVmnetC builds it; abi tells gcc where the simulator's header is.
func (b *bench) buildVmnetC(ctx context.Context, abi string) error {
	b.sim.vmnetC = filepath.Join(b.dir, "vmnetc")
	return b.compile(ctx, b.sim.vmnetC, []string{abi}, "vmnetc.c", "vmnetlib.c", "wire.c")
}

// vmnetSetups are its combinations; those of the daemon are among setups.
func vmnetSetups() []setup {
	return []setup{
		{name: "vmnet-c 2 batch", relay: relayVmnetC, load: load{Clients: 2, Pairs: 1, Batch: batchFrames}},
		{name: "vmnet-c 2 single", relay: relayVmnetC, load: load{Clients: 2, Pairs: 1, Batch: 1}},
		{name: "vmnet-c echo", relay: relayVmnetC, load: load{Clients: 2, Pairs: 1, Batch: 1, Echo: true}, parts: echoParts},
	}
}

// vmnetRows hold the daemon against it.
func vmnetRows() []row {
	return []row{
		{key: "vmnet-c", text: "2 clients on simulated vmnet / C", subject: "vmnet 2 batch", base: "vmnet-c 2 batch", cpu: true, target: vmnetCTarget},
		{key: "vmnet-c-single", text: "the same, a frame a write", subject: "vmnet 2 single", base: "vmnet-c 2 single", cpu: true, target: vmnetCTarget},
		{key: "vmnet-c-rtt", text: "idle round trip p50 / C", subject: "vmnet echo", base: "vmnet-c echo", latency: true},
	}
}
