// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnettest"
)

// TestConformance runs the suite that every network must pass, in each way to make one. More of them are in
// TestSimConformance.
func TestConformance(t *testing.T) {
	tests := []struct {
		name   string
		o      Options
		change func(*fake)
	}{
		{"network", onNetwork(), nil},
		{"interfaces", with(onNetwork(), func(o *Options) { o.UseAPI = APIInterface }), nil},
		{"one interface", with(onNetwork(), func(o *Options) { o.Interfaces = InterfacesOne }), nil},
		{"no room for clients", onNetwork(), func(f *fake) { f.limit = 1 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var fakes []*fake
			vnettest.TestNetwork(t, func(t *testing.T) vnet.Network {
				f := newFake()
				if tt.change != nil {
					tt.change(f)
				}
				fakes = append(fakes, f)
				o := tt.o
				o.API = f
				n, err := New(context.Background(), o)
				require.NoError(t, err)
				return n
			})
			for _, f := range fakes {
				assert.Empty(t, f.rules())
				assert.Empty(t, f.running(), "interfaces left")
				assert.Equal(t, len(f.created), f.released, "network objects left")
			}
		})
	}
}
