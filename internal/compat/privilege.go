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
	var u unix.Utsname
	_ = unix.Uname(&u) // the release stays empty
	return privilegeWarnings(goos, unix.ByteSliceToString(u.Release[:]), b, euid, uid)
}

// privilegeWarnings is PrivilegeWarnings under the given release of the kernel, such as "25.1.0", empty where it is not known. From macOS
// 26 on, the signature decides, and vmnet's refusal tells of it.
func privilegeWarnings(goos, release string, b Backend, euid, uid int) []string {
	first, _, _ := strings.Cut(release, ".")
	kernel, err := strconv.Atoi(first)
	var w []string
	if goos == "darwin" && (err != nil || kernel < unprivilegedKernel) && b.Resolve(goos) == BackendVmnet && euid != 0 {
		w = append(w, "Running without root. This is very unlikely to work: See README.md")
	}
	if euid != uid {
		w = append(w, "Seems running with SETUID. This is insecure and highly discouraged: See README.md")
	}
	return w
}
