// SPDX-License-Identifier: Apache-2.0

package client

import "time"

// refusedTime is nothing: a full backlog is EAGAIN, and a refused connection means that nobody listens.
const refusedTime = time.Duration(0)
