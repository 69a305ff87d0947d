// SPDX-License-Identifier: Apache-2.0

//go:build !vmnetsim

package compat

// buildOptions is empty: this program loads no library but Apple's, whatever it is told.
var buildOptions []option

// buildConfig is what buildOptions fill in.
type buildConfig struct{}

// checkBuild checks what buildOptions filled in.
func (*settings) checkBuild() error { return nil }
