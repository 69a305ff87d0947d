// SPDX-License-Identifier: Apache-2.0

//go:build race

package main

import "os"

// The tests are built with the race detector, so the program under test is too.
func init() {
	buildFlags = append(buildFlags, "-race")
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // it would add a second to every stop
}
