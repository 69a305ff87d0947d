// SPDX-License-Identifier: Apache-2.0

//go:build !race

package install

// raceEnabled: see race_test.go.
const raceEnabled = false
