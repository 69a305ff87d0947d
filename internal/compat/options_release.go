// SPDX-License-Identifier: Apache-2.0

//go:build !vmnetsim

package compat

import "github.com/urfave/cli/v2"

// buildFlags is empty: this program loads no library but Apple's, whatever it is told.
func (*settings) buildFlags() []cli.Flag { return nil }

// buildConfig is what buildFlags fill in.
type buildConfig struct{}

// checkBuild checks what buildFlags filled in.
func (*settings) checkBuild() error { return nil }
