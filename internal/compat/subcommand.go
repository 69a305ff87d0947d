// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// notOfNetwork are the options of the daemon that say nothing of its network: subcommands that only open a network do not
// take them.
var notOfNetwork = []string{
	"socket-group", "socket-user", "socket-mode", "queue-size", "max-clients", "state-dir", "runtime-dir",
	"allow-uid", "pidfile", "log-format", "log-level", "metrics-listen", "metrics-anywhere", "list-interfaces", "help", "version",
}

// Subcommand takes a command line apart that asks for a subcommand: only the new program has them, and only its first
// argument, letter for letter, is one. It returns the name, empty when this is the daemon's command line, and the rest.
func Subcommand(argv, names []string) (name string, args []string) {
	if len(argv) < 2 || PersonalityOf(argv[0]) != New || !slices.Contains(names, argv[1]) {
		return "", nil
	}
	return argv[1], argv[2:]
}

// networkOptions are the daemon's options that say what network it opens.
func networkOptions() []option {
	return slices.DeleteFunc(slices.Clone(optionsOf(New)), func(o option) bool { return slices.Contains(notOfNetwork, o.name) })
}

// NetworkFlags are the options that describe a network, for a subcommand. Its cli.App needs DisableSliceFlagSeparator.
func NetworkFlags() []cli.Flag { return (&parser{opts: networkOptions()}).flags() }

// NetworkUsage is the part of a subcommand's usage text that tells of NetworkFlags.
func NetworkUsage() string {
	var b strings.Builder
	writeOptions(&b, networkOptions())
	return b.String()
}

// NetworkConfig is the daemon's Config for the network that the flags of c describe, checked as the daemon does.
// It has no SocketPath.
func NetworkConfig(c *cli.Context, env IO) (*Config, error) {
	ps := parser{opts: networkOptions(), env: env}
	s := &settings{Config: defaultConfig()}
	if err := ps.store(s, c); err != nil {
		return nil, err
	}
	if err := s.finish(); err != nil {
		return nil, err
	}
	_, s.Debug = env.LookupEnv("DEBUG")
	return &s.Config, nil
}
