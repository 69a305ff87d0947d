// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package compat

import "time"

// The BSDs and macOS refuse a connection also when the backlog is full, which socket_vmnet's own (it asks for 0) easily is.
// So a socket counts as stale only if it is refused for a second.
const (
	probes   = 21
	probeGap = 50 * time.Millisecond
)
