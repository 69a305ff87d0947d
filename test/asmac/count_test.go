// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCount(t *testing.T) {
	const (
		passed = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA/x"}
{"Action":"pass","Package":"p","Test":"TestA"}
`
		skipped = `{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:3: darwin: no such thing\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
`
		unruly = `{"Action":"output","Package":"p","Test":"TestC","Output":"    c_test.go:3: needs gcc\n"}
{"Action":"skip","Package":"p","Test":"TestC"}
`
		failed = `{"Action":"output","Package":"p","Test":"TestD","Output":"    d_test.go:3: why\n"}
{"Action":"fail","Package":"p","Test":"TestD"}
{"Action":"output","Package":"p","Output":"FAIL p 1s\n"}
{"Action":"fail","Package":"p"}
`
	)
	for name, c := range map[string]struct{ events, says, fails string }{
		"passed":         {passed, "1 tests and 1 parts of tests ran as the Mac's program, 0 failed, 0 were skipped by a rule of macOS, 0 without", ""},
		"by a rule":      {passed + skipped, "    skipped: p TestB: no such thing\n", ""},
		"without a rule": {passed + unruly, "0 were skipped by a rule of macOS, 1 without", `without a rule of macOS: p TestC: begin`},
		"failed":         {passed + failed, "    d_test.go:3: why\nFAIL p 1s\ntest.mac: 1 tests and 1 parts of tests ran as the Mac's program, 1 failed", ""},
		"none":           {"", "0 tests", "no test ran"},
		"no events":      {"FAIL\n", "", "read the events"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			all := results{}
			err := all.count(strings.NewReader(c.events), &out)
			if err == nil {
				err = all.report(&out)
			}
			assert.Contains(t, out.String(), c.says)
			if c.fails == "" {
				require.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, c.fails)
		})
	}
}

// TestPackages: what is left out exists, and what matters is not left out.
func TestPackages(t *testing.T) {
	t.Chdir("../..")
	list, err := packages(t.Context(), "go")
	require.NoError(t, err)
	for _, p := range []string{"/cmd/socket_vmnet2", "/internal/link", "/internal/vmnet/ffi"} {
		assert.Contains(t, list, module+p)
	}
	assert.NotContains(t, list, module+"/test/vmnetsim")
}
