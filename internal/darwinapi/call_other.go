// SPDX-License-Identifier: Apache-2.0

//go:build !darwin

package darwinapi

import "golang.org/x/sys/unix"

// Read and Write are for systems whose program is not released.
var Read, Write = unix.Read, unix.Write
