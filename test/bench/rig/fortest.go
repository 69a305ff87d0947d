// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"os"
	"os/exec"
	"testing"
)

// ForTest is New for a test, which is skipped where there is no gcc; in CI it fails. It closes the Rig at the end of the test.
func ForTest(tb testing.TB, o Options) *Rig {
	tb.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		if os.Getenv("CI") != "" {
			tb.Fatal("gcc is required in CI: apt-get install gcc libc6-dev")
		}
		tb.Skip("needs gcc for the load generator and the C relays, try: apt-get install gcc libc6-dev")
	}
	r, err := New(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(r.Close)
	return r
}
