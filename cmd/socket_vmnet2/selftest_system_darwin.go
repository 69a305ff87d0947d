// SPDX-License-Identifier: Apache-2.0

package main

import "golang.org/x/sys/unix"

// systemVersion is the version of macOS, and whether it is a guest itself.
func systemVersion() string {
	text := "macOS"
	for _, name := range []string{"kern.osproductversion", "kern.osversion"} {
		if v, err := unix.Sysctl(name); err == nil {
			text += " " + v
		}
	}
	if v, err := unix.SysctlUint32("kern.hv_vmm_present"); err == nil && v != 0 {
		text += ", in a virtual machine"
	}
	return text
}
