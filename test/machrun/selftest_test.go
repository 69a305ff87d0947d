// SPDX-License-Identifier: Apache-2.0

package machrun

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

// TestSelftest runs the self test of the program for macOS, as it ships, on the simulator: no step fails, and none is
// skipped.
func TestSelftest(t *testing.T) {
	t.Parallel()
	loader, simulator := Program(t), vmnetsim.Library(t, vmnetsim.Full)
	program := buildDarwin(t, "../../cmd/socket_vmnet2")
	for _, api := range []string{"interface", "network"} {
		for _, mode := range []string{"shared", "host"} {
			t.Run(api+" "+mode, func(t *testing.T) {
				cmd := exec.CommandContext(t.Context(), loader, program, "selftest", "--json", "--quick",
					"--vmnet-api="+api, "--vmnet-mode="+mode, "--vmnet-gateway=192.168.105.1")
				cmd.Env = append(os.Environ(), "MACHRUN_VMNET="+simulator, "MACHRUN_VMNET_DIR="+t.TempDir())
				out, err := cmd.Output()
				var report struct {
					Verdict string
					Network map[string]any
					Steps   []struct{ Name, Outcome, Text string }
				}
				require.NoError(t, json.Unmarshal(out, &report), "%v: %s", err, out)
				assert.NoError(t, err)
				assert.Equal(t, "pass", report.Verdict)
				assert.Equal(t, api, report.Network["api"])
				assert.Len(t, report.Steps, 17)
				for _, s := range report.Steps {
					assert.Equal(t, "pass", s.Outcome, "%s: %s", s.Name, s.Text)
				}
			})
		}
	}
}
