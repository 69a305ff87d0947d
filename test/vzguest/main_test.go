// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		name, args, want string // want: the error's text, empty for none
	}{
		{"kernel", "--mac 52:54:00:12:34:56 --kernel a --initrd b --cmdline quiet --cpus 2 --memory 1024 --timeout 5m", ""},
		{"nothing", "--mac 52:54:00:12:34:56", "nothing to boot"},
		{"no address", "--kernel a", "--mac is missing"},
		{"wrong address", "--kernel a --mac x", "x"},
		{"operand", "--kernel a --mac 52:54:00:12:34:56 x", `unexpected argument "x"`},
		{"unknown", "--bridged", "-bridged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, err := parse(strings.Fields(c.args), io.Discard)
			if c.want == "" {
				require.NoError(t, err)
				assert.Equal(t, "52:54:00:12:34:56", o.mac.String())
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
	var log strings.Builder
	_, err := parse([]string{"--help"}, &log)
	require.ErrorIs(t, err, flag.ErrHelp)
	assert.Contains(t, log.String(), "  -kernel FILE")
}
