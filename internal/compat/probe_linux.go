// SPDX-License-Identifier: Apache-2.0

package compat

import "time"

// A refused connection to a unix socket means that nobody listens; a full backlog is told apart by EAGAIN.
const (
	probes   = 1
	probeGap = time.Duration(0)
)
