// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"slices"

	"github.com/urfave/cli/v2"
)

// Subcommand takes a command line apart that asks for a subcommand: only the new program has them, and only its first
// argument, letter for letter, is one. It returns the name, empty when this is the daemon's command line, and the rest.
func Subcommand(argv, names []string) (name string, args []string) {
	if len(argv) < 2 || PersonalityOf(argv[0]) != New || !slices.Contains(names, argv[1]) {
		return "", nil
	}
	return argv[1], argv[2:]
}

// Network are the daemon's options that say what network it opens, for a subcommand.
type Network struct{ s *settings }

// NewNetwork returns one with all defaults.
func NewNetwork() Network { return Network{newSettings(New)} }

// Flags are the options, which fill n in.
func (n Network) Flags() []cli.Flag {
	all := slices.Concat(n.s.upstreamNetwork(), n.s.ownNetwork(), n.s.buildFlags())
	for _, f := range all {
		const category = "The network's options are those of the daemon"
		switch f := f.(type) {
		case *cli.BoolFlag:
			f.Category = category
		case *cli.GenericFlag:
			f.Category = category
		case *cli.StringFlag:
			f.Category = category
		}
	}
	return all
}

// SocketFlags are those of the daemon that say whose its socket is; they fill n in as well.
func (n Network) SocketFlags() []cli.Flag { return []cli.Flag{n.s.socketGroup(), n.s.socketUser()} }

// Config is the daemon's Config for the network that the options given in c describe, checked as the daemon does. It has no SocketPath.
func (n Network) Config(c *cli.Context, env IO) (*Config, error) {
	s := *n.s
	s.given = c.IsSet
	if err := s.finish(); err != nil {
		return nil, err
	}
	_, s.Debug = env.LookupEnv("DEBUG")
	return &s.Config, nil
}
