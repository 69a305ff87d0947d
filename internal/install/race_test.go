// SPDX-License-Identifier: Apache-2.0

//go:build race

package install

// raceEnabled: the race detector has nothing to find here, and makes everything slow.
const raceEnabled = true
