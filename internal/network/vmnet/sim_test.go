// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim

package vmnet

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/ffi"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

// A sim is a simulator with its switches.
type sim struct {
	*ffi.API
	*vmnetsim.Control
}

// simulator opens a simulator that is this test's alone: a copy of the library has its own state. At the end of the test
// nothing may be left in it.
func simulator(t *testing.T, f vmnetsim.Flavour) *sim {
	t.Helper()
	lib, err := os.ReadFile(vmnetsim.Library(t, f))
	require.NoError(t, err)
	dir := t.TempDir() // the process goes on using what it has mapped
	own := filepath.Join(dir, "own.so")
	require.NoError(t, os.WriteFile(own, lib, 0o700))
	c, err := vmnetsim.Open(filepath.Join(dir, "sim"))
	require.NoError(t, err)
	a, err := ffi.OpenSimulator(own, filepath.Join(dir, "sim"))
	require.NoError(t, err)
	s := &sim{API: a, Control: c}
	t.Cleanup(func() {
		s.Reset()
		s.empty(t)
	})
	return s
}

// empty waits until nothing is left in the simulator.
func (s *sim) empty(t *testing.T) {
	t.Helper()
	assert.Eventually(t, func() bool {
		g := s.Gauges()
		return g.Interfaces == 0 && g.Networks == 0 && g.Queues == 0
	}, patience, time.Millisecond, "left: %+v", s.Gauges())
}

// TestSimConformance runs the suite that every network must pass, through the binding into the simulator.
func TestSimConformance(t *testing.T) {
	tests := []struct {
		name    string
		flavour vmnetsim.Flavour
		o       Options
		set     map[vmnetsim.Switch]int64
	}{
		{"network, offload", vmnetsim.Full, with(onNetwork(), func(o *Options) { o.Offload = true }), nil},
		{"bridged, short reads, late events", vmnetsim.Full, bridged(), map[vmnetsim.Switch]int64{vmnetsim.ReadMax: 3, vmnetsim.EventDelay: 500}},
		{"macOS 14", vmnetsim.NoMacOS15, home(), nil},
		{"no room for clients, so they share", vmnetsim.Full, onNetwork(), map[vmnetsim.Switch]int64{vmnetsim.MaxInterfaces: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := simulator(t, tt.flavour)
			for k, v := range tt.set {
				s.Set(k, v)
			}
			vnettest.TestNetwork(t, func(t *testing.T) network.Network {
				o := tt.o
				o.API = s
				n, err := New(context.Background(), o)
				require.NoError(t, err)
				return n
			})
		})
	}
}
