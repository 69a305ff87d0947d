// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"testing"

	"github.com/socket-vmnet2/socket_vmnet2/test/cbuild"
)

// ForTest is New for a test. It closes the Rig at the end of the test.
func ForTest(tb testing.TB, o Options) *Rig {
	tb.Helper()
	r, err := New(tb.Context(), o)
	cbuild.Must(tb, "", err)
	tb.Cleanup(r.Close)
	return r
}
