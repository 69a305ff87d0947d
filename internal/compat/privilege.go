// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// unprivilegedKernel is the first version of macOS's kernel under which a signed program needs no root for vmnet: macOS 26.
const unprivilegedKernel = 25

// PrivilegeWarnings returns socket_vmnet's warnings about the user that the daemon runs as, as far as they are true here:
// root is needed by vmnet on macOS only, and no more since macOS 26, while a set-user-id binary is a bad idea everywhere.
func PrivilegeWarnings(goos string, b Backend, euid, uid int) []string {
	return privilegeWarnings(goos, kernelMajor(kernelRelease()), b, euid, uid)
}

// privilegeWarnings is PrivilegeWarnings under the given major version of the kernel, 0 where it is not known. From macOS 26
// on, the signature decides, and vmnet's refusal tells of it.
func privilegeWarnings(goos string, kernel int, b Backend, euid, uid int) []string {
	var w []string
	if goos == "darwin" && kernel < unprivilegedKernel && b.Resolve(goos) == BackendVmnet && euid != 0 {
		w = append(w, "Running without root. This is very unlikely to work: See README.md")
	}
	if euid != uid {
		w = append(w, "Seems running with SETUID. This is insecure and highly discouraged: See README.md")
	}
	return w
}

// kernelRelease is what uname -r prints, empty if the system does not tell.
func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// kernelMajor is the first number of a release such as "25.1.0", 0 if it has none.
func kernelMajor(release string) int {
	first, _, _ := strings.Cut(release, ".")
	n, err := strconv.Atoi(first)
	if err != nil {
		return 0
	}
	return n
}
