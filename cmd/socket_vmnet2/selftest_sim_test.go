// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim

package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

// TestOnVmnetSelftest runs the self test on the simulated vmnet, whole and broken. It runs in TestOnSimulator's process.
func TestOnVmnetSelftest(t *testing.T) {
	if os.Getenv(simulatorEnv) == "" {
		return
	}
	const notAuthorized = 1010
	on := func(s vmnetsim.Switch, v int64) func(*vmnetsim.Control) {
		return func(c *vmnetsim.Control) { c.Set(s, v) }
	}
	tests := []struct {
		name    string
		flavour vmnetsim.Flavour
		breakIt func(*vmnetsim.Control)
		code    int
		fails   string // step
		check   func(t *testing.T, r report, values map[string]map[string]any)
	}{
		{"macOS 26", vmnetsim.Full, nil, 0, "", func(t *testing.T, r report, values map[string]map[string]any) {
			assert.Equal(t, "interface", r.Network["api"])
			assert.NotEmpty(t, r.Network["api_why"])
			assert.Equal(t, "1500", r.Network["vmnet_mtu"])
			assert.EqualValues(t, 8, values["interfaces"]["own"])
			assert.EqualValues(t, 0, values["attach"]["sharing"])
			assert.Equal(t, "reboot", values["same-lease"]["how"])
		}},
		{"macOS 15", vmnetsim.NoMacOS26, nil, 0, "", func(t *testing.T, r report, _ map[string]map[string]any) {
			assert.Equal(t, "interface", r.Network["api"])
		}},
		{"few interfaces", vmnetsim.Full, on(vmnetsim.MaxInterfaces, 6), 0, "", func(t *testing.T, r report, values map[string]map[string]any) {
			// One is the anchor.
			assert.EqualValues(t, 5, values["interfaces"]["own"])
			assert.EqualValues(t, 5, values["interfaces"]["first_failure_at"])
			assert.EqualValues(t, 8, values["interfaces"]["started"])
			assert.Contains(t, values["interfaces"]["first_failure"], "VMNET_FAILURE")
			require.NotEmpty(t, r.Log)
			assert.Contains(t, r.Log[len(r.Log)-1], "VMNET_FAILURE")
		}},
		{"too few interfaces", vmnetsim.Full, on(vmnetsim.MaxInterfaces, 3), 1, "attach", nil},
		{"no unicast", vmnetsim.Full, on(vmnetsim.NoUnicast, 1), 1, "unicast", nil},
		{"slow start", vmnetsim.Full, on(vmnetsim.StartDelay, 200), 0, "", func(t *testing.T, _ report, values map[string]map[string]any) {
			assert.GreaterOrEqual(t, values["attach"]["a_start_ms"], 200.0)
			assert.GreaterOrEqual(t, values["interfaces"]["start_median_ms"], 200.0)
		}},
		{"busy for a while", vmnetsim.Full, on(vmnetsim.BusyAfter, 500), 0, "", func(t *testing.T, _ report, values map[string]map[string]any) {
			// The time runs from somewhere within the close, however long the rest of that takes.
			assert.GreaterOrEqual(t, values["reopen"]["after_ms"].(float64)+values["close"]["network_ms"].(float64), 480.0)
			assert.Equal(t, values["reopen"]["subnet_before"], values["reopen"]["subnet_after"])
		}},
		{"not authorized", vmnetsim.NoMacOS26, on(vmnetsim.StartStatus, notAuthorized), 2, "open", func(t *testing.T, r report, _ map[string]map[string]any) {
			assert.Equal(t, "no-start", r.Verdict)
			assert.Contains(t, r.Reason, "VMNET_NOT_AUTHORIZED")
			assert.Contains(t, r.Reason, "run as root")
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if tt.breakIt != nil {
				c, err := vmnetsim.Open(dir)
				require.NoError(t, err)
				defer c.Close()
				tt.breakIt(c)
			}
			args := append([]string{"--json", "--quick", "--vmnet-gateway=192.168.105.1"}, simulatorArgs(vmnetsim.Library(t, tt.flavour), dir)...)
			code, stdout, stderr := selftestRun(t, args...)
			r := parseReport(t, stdout)
			assert.Equal(t, tt.code, code, "%s\n%s", stdout, stderr)
			assert.Equal(t, "vmnet", r.Environment["backend"])
			values := map[string]map[string]any{}
			for _, s := range r.Steps {
				values[s.Name] = s.Values
				if s.Name == tt.fails {
					assert.Equal(t, "fail", s.Outcome, "%s: %s", s.Name, s.Text)
				}
			}
			if tt.check != nil {
				tt.check(t, r, values)
			}
		})
	}
}
