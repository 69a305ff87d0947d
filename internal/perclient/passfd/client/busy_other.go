// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package client

import "time"

// refusedTime is how long to try again after a refused connection: macOS refuses when the backlog is full, too, and that has 128
// places whatever listen(2) was told (solisten in XNU's bsd/kern/uipc_socket.c).
const refusedTime = time.Second
