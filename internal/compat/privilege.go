// SPDX-License-Identifier: Apache-2.0

package compat

// PrivilegeWarnings returns socket_vmnet's warnings about the user that the daemon runs as, as far as they are true here:
// root is needed by vmnet on macOS only, while a set-user-id binary is a bad idea everywhere.
func PrivilegeWarnings(goos string, b Backend, euid, uid int) []string {
	var w []string
	if goos == "darwin" && b.Resolve(goos) == BackendVmnet && euid != 0 {
		w = append(w, "Running without root. This is very unlikely to work: See README.md")
	}
	if euid != uid {
		w = append(w, "Seems running with SETUID. This is insecure and highly discouraged: See README.md")
	}
	return w
}
