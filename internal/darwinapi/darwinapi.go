// SPDX-License-Identifier: Apache-2.0

// Package darwinapi calls functions of macOS's libSystem that Go has no names for: sendmsg_x and recvmsg_x, which take
// many datagrams at once, launch_activate_socket, alarm, and proc_pidpath. It does so with purego, as package ffi does, and like that contains
// code only on macOS and, but for Read and Write, under the build tag vmnetsim, which can put the simulator in libSystem's place.
package darwinapi

import "errors"

// ErrNotLaunchd is returned by ActivateSocket in a process that launchd did not start. The caller makes its sockets itself.
var ErrNotLaunchd = errors.New("not started by launchd")
