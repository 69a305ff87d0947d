// SPDX-License-Identifier: Apache-2.0

// Package faults lets tests make a running daemon panic at named points, to see that one client ends and nothing else. Only
// programs that are built with the tag faults have these points; in all others Point is nothing at all.
//
// Env names a file, which the program reads again and again:
//
//	NONCE          any text
//	POINT COUNT    POINT panics COUNT times
//	...
//
// When what it says is in force, the file with the suffix AckSuffix says NONCE and, after a space, how many goroutines run.
package faults

const (
	// Env is the variable that names the file.
	Env = "SOCKET_VMNET2_FAULTS"
	// AckSuffix is the suffix of the file with the answer.
	AckSuffix = ".ack"
	// Mark is what frames or names have in them that a point is to panic over which others pass as well.
	Mark = "fault-mark"
)
