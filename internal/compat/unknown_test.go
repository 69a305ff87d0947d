// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"net"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestUnknownCommand: a lone bare word starts a daemon only where a socket of that name is.
func TestUnknownCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	ln, err := net.Listen("unix", "here")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	require.NoError(t, os.WriteFile("file", nil, 0o600))
	const path = " A socket is given by its path, such as ./"
	tests := []struct {
		name, line string
		want       string // of the refusal; empty: none
	}{
		{"two letters swapped", "statsu", `unknown command "statsu": did you mean "status"?` + path + "statsu"},
		{"behind options", "--backend=usernet --vmnet-gateway=10.1.2.1 statsu", `unknown command "statsu": did you mean "status"?` + path + "statsu"},
		{"in front of options", "statsu --backend usernet", `unknown command "statsu": did you mean "status"?` + path + "statsu"},
		{"behind two dashes", "-- self", `unknown command "self": did you mean "selftest"?` + path + "self"},
		{"a command behind an option", "--vmnet-mode=host status", `unknown command "status": that is one as the first argument.` + path + "status"},
		{"another case", "Status", `unknown command "Status": did you mean "status"?` + path + "Status"},
		{"nothing near", "vmnet.sock", `unknown command "vmnet.sock": socket_vmnet2 help lists them.` + path + "vmnet.sock"},
		{"a file", "file", `unknown command "file": socket_vmnet2 help lists them.` + path + "file"},
		{"a socket", "here", ""},
		{"a socket and options", "--isolate here", ""},
		{"a path", "./statsu", ""},
		{"an absolute path", "/nowhere/statsu", ""},
		{"no daemon", "--list-interfaces statsu", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg, code, out, errs := parseWith(New, tt.line)
			if tt.want == "" {
				assert.NotNil(t, cfg, errs)
				return
			}
			assert.Nil(t, cfg)
			assert.Equal(t, 1, code)
			assert.Equal(t, "ERROR| "+tt.want+"\n", errs)
			assert.Empty(t, out)
		})
	}
	for _, line := range []string{"statsu", "--vmnet-mode=host status", "-- self"} {
		t.Run("the old name, "+line, func(t *testing.T) {
			cfg, _, _, errs := parseWith(Old, line)
			assert.NotNil(t, cfg, errs)
		})
	}
}

// parseWith is Parse where there are subcommands.
func parseWith(p Personality, line string) (cfg *Config, code int, stdout, stderr string) {
	var out, errs strings.Builder
	env := IO{Stdout: &out, Stderr: &errs, LookupEnv: func(string) (string, bool) { return "", false }, Commands: []string{"exec", "selftest", "status"}}
	cfg, outcome := Parse(p, append([]string{"prog"}, strings.Fields(line)...), env)
	return cfg, outcome.Code, out.String(), errs.String()
}

func TestNearest(t *testing.T) {
	names := []string{"capture", "clients", "doctor", "exec", "install", "kick", "log-level", "status", "upgrade"}
	for word, want := range map[string]string{
		"stats": "status", "statuss": "status", "tsatus": "status", "client": "clients", "docter": "doctor", "exce": "exec", "exe": "exec",
		"loglevel": "log-level", "upgrad": "upgrade", "instal": "install", "KICK": "kick", "c": "", "x": "", "sock": "", "vmnet": "", "start": "",
		"socket_vmnet": "", "é": "",
	} {
		assert.Equal(t, want, nearest(word, names), word)
	}
}
