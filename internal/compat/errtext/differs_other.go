// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package errtext

import "syscall"

// differs is empty: Go's tables for the BSDs and macOS are the systems' own texts.
var differs = map[syscall.Errno]string{}
