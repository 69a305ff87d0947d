// SPDX-License-Identifier: Apache-2.0

package fakevm

import (
	"context"
	"path/filepath"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// machine describes where the measurements are made, and by which programs.
func (l *lab) machine(ctx context.Context) rounds.Machine {
	m := rounds.ThisMachine(ctx)
	m.Programs = []string{rounds.Told(ctx, l.iperf3, "--version")} // of those that decide what is measured
	if filepath.IsAbs(l.o.Gvproxy) {                               // it was needed and found
		m.Programs = append(m.Programs, rounds.Told(ctx, l.o.Gvproxy, "-version"))
	}
	return m
}
