// SPDX-License-Identifier: Apache-2.0

package vmnetsim

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSmoke(t *testing.T) {
	for _, f := range []Flavour{Full, NoMacOS26, NoMacOS15} {
		t.Log(Library(t, f))
	}
	dir := t.TempDir()
	c, err := Open(dir)
	require.NoError(t, err)
	t.Logf("%+v", c.Gauges())
	require.NoError(t, c.Close())
}
