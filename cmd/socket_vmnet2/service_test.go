// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
)

// callService is the subcommand within this process.
func callService(args ...string) (code int, stdout, stderr string) {
	var out, err strings.Builder
	code = runService(args, compat.IO{Stdout: &out, Stderr: &err, LookupEnv: func(string) (string, bool) { return "", false }})
	return code, out.String(), err.String()
}

// TestServiceUsage: a bad command line is told of with the usage text and ends with 1, before this system is looked at.
func TestServiceUsage(t *testing.T) {
	for _, args := range []string{"--help", "-h", "install --help", "status -h", "stop --user --help", "--help x"} {
		code, stdout, stderr := callService(strings.Fields(args)...)
		assert.Zero(t, code, args)
		assert.Equal(t, serviceText, stdout, args)
		assert.Empty(t, stderr, args)
	}
	for _, c := range []struct{ args, want string }{
		{"", "what is service to do? One of install, uninstall"},
		{"--user", "unknown option --user"},
		{"enable", "service cannot enable, only install"},
		{"install x", `"x" is no option; the daemon's options and SOCKET are behind --`},
		{"install --nix", "unknown option --nix"},
		{"install --network", "option --network needs an argument"},
		{"install --network=", "--network needs a value"},
		{"install --prefix=", "--prefix needs a value"},
		{"install --user=x", "option --user takes no argument"},
		{"start --socket-activated", "--socket-activated is not for service start"},
		{"stop --prefix=/x", "--prefix is not for service stop"},
		{"status --dry-run", "--dry-run is not for service status"},
		{"restart -- /s", "the daemon's options behind -- are for service install, not for service restart"},
	} {
		t.Run(c.args, func(t *testing.T) {
			code, stdout, stderr := callService(strings.Fields(c.args)...)
			assert.Equal(t, 1, code)
			assert.Equal(t, serviceText, stdout)
			assert.Contains(t, stderr, "ERROR| ")
			assert.Contains(t, stderr, c.want)
		})
	}
	for _, c := range []struct{ args, want string }{
		{"install --network=nat", "--network=nat is none of shared, host and bridged"},
		{"install --name=a/b -- /s", "--name=a/b cannot be the name of a job"},
		{"install --dry-run -- --help", "only print something"},
		{"install --dry-run -- --vmnet-mode=x /s", "the daemon's options behind --: "},
		{"install --dry-run -- s", "SOCKET (s) is no absolute path"},
	} {
		t.Run(c.args, func(t *testing.T) {
			code, stdout, stderr := callService(strings.Fields(c.args)...)
			assert.Equal(t, 1, code)
			assert.Empty(t, stdout)
			assert.Regexp(t, "^ERROR[|] [^\n]*\n$", stderr)
			assert.Contains(t, stderr, c.want)
		})
	}
}
