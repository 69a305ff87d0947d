// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package mmsg

const (
	// canSendNow: a send waits where the descriptor does.
	canSendNow = false
	// longestPath is what a name can be.
	longestPath = 103
)

var otherNames []string
