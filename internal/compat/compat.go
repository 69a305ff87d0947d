// SPDX-License-Identifier: Apache-2.0

// Package compat is everything that exists only because socket_vmnet did it: the getopt_long command line, the log lines,
// the pidfile, and the owner, group and mode of the socket.
//
// The command line is read in three steps. A scanner turns argv into a list of options exactly as getopt_long does; the
// list, in canonical form, goes through urfave/cli into a Config; then the values are checked against each other, before
// anything of the system has been touched.
package compat

import (
	"path/filepath"
	"runtime/debug"
	"strings"
)

// noVersion is the version of a program that was built in a source tree without the Makefile.
const noVersion = "v0.0.0-dev"

// Version is what --version prints. The Makefile sets it with -ldflags "-X ...compat.Version=v1.2.3"; a program of go install
// ...@v1.2.3 has it from the module.
var Version = noVersion

func init() {
	if info, ok := debug.ReadBuildInfo(); ok && Version == noVersion {
		Version = versionOf(info)
	}
}

// versionOf tells the version of a module that came with a checksum, which a source tree has not.
func versionOf(info *debug.BuildInfo) string {
	if info.Main.Sum == "" {
		return noVersion
	}
	return info.Main.Version
}

// A Personality is one of the two programs this binary can be.
type Personality int

const (
	// Old knows the thirteen options of socket_vmnet and nothing else, so that its abbreviations keep their meaning.
	Old Personality = iota
	// New is socket_vmnet2: the old options and our own.
	New
)

// PersonalityOf tells by the program's base name which one it is: socket_vmnet2 and everything that begins so is the new
// one, any other name (socket_vmnet, a copy, a wrapper) the old one.
func PersonalityOf(argv0 string) Personality {
	if strings.HasPrefix(filepath.Base(argv0), "socket_vmnet2") {
		return New
	}
	return Old
}
