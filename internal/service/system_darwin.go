// SPDX-License-Identifier: Apache-2.0

package service

import (
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// homeDirectory is where the library writes jobs of the user, whatever HOME says.
func homeDirectory() string {
	if u, err := user.Current(); err == nil {
		return u.HomeDir
	}
	return os.Getenv("HOME")
}

// darwinKernel is the major version of macOS's kernel.
func darwinKernel() int {
	release, err := syscall.Sysctl("kern.osrelease")
	if err != nil {
		return 0
	}
	major, _, _ := strings.Cut(release, ".")
	n, _ := strconv.Atoi(major)
	return n
}
