// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// onlyDarwin is what the programs for macOS have and those for Linux do not.
var onlyDarwin = []string{"github.com/ebitengine/purego", module + "/internal/vmnet/ffi"}

// TestDarwinBinary checks what is linked into the daemon for macOS as it is released: the binding, and nothing of tests,
// nor of the simulator's side.
func TestDarwinBinary(t *testing.T) {
	for _, arch := range []string{"arm64", "amd64"} {
		t.Run(arch, func(t *testing.T) {
			env := []string{"CGO_ENABLED=0", "GOOS=darwin", "GOARCH=" + arch}
			deps := strings.Fields(string(run(t, env, "go", "list", "-deps", "./cmd/socket_vmnet2")))
			for _, d := range onlyDarwin {
				assert.Contains(t, deps, d)
			}
			deps = slices.DeleteFunc(deps, func(d string) bool {
				return slices.ContainsFunc(onlyDarwin, func(o string) bool { return d == o || strings.HasPrefix(d, o+"/") })
			})
			for _, c := range checkLinked(deps) {
				t.Error(c)
			}
			ignored := run(t, env, "go", "list", "-f", "{{.IgnoredGoFiles}}", "./cmd/socket_vmnet2")
			assert.Contains(t, string(ignored), "vmnet_sim.go")
		})
	}
}
