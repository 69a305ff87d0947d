// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestScan(t *testing.T) {
	options := []Item{{Name: "socket", Short: "s", Arg: "PATH"}, {Name: "verbose", Short: "v"}, {Name: "version"}}
	stop := errors.New("stop")
	tests := []struct {
		name     string
		args     []string
		posixly  bool
		want     []string // name=value
		operands []string
		err      string
	}{
		{
			"separate and attached",
			[]string{"--socket", "a", "--socket=b", "-s", "c", "-sd"},
			false,
			[]string{"socket=a", "socket=b", "socket=c", "socket=d"},
			nil, "",
		},
		{"cluster", []string{"-vvs", "a"}, false, []string{"verbose=", "verbose=", "socket=a"}, nil, ""},
		{"prefix", []string{"--verb", "--so", "a"}, false, []string{"verbose=", "socket=a"}, nil, ""},
		{"operands between", []string{"x", "-v", "y", "--", "-v"}, false, []string{"verbose="}, []string{"x", "y", "-v"}, ""},
		{"operands end the options", []string{"x", "-v"}, true, nil, []string{"x", "-v"}, ""},
		{"ambiguous", []string{"--ver"}, false, nil, nil, "ambiguous"},
		{"unknown", []string{"-v", "--new"}, false, []string{"verbose="}, nil, "unknown option --new"},
		{"argument missing", []string{"--socket"}, false, nil, nil, "needs an argument"},
		{"stopped", []string{"--version", "--new"}, false, []string{"version="}, nil, "stop"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			operands, err := Scan(options, tt.args, tt.posixly, func(it Item, value string) error {
				got = append(got, it.Name+"="+value)
				if it.Name == "version" {
					return stop
				}
				return nil
			})
			assert.Equal(t, tt.want, got)
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.operands, operands)
		})
	}
}
