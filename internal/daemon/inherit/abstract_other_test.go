// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package inherit

// abstractNames: sockets have names in the file system only.
const abstractNames = false
