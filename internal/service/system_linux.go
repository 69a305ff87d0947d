// SPDX-License-Identifier: Apache-2.0

package service

import "os"

// homeDirectory is where the library writes units of the user.
func homeDirectory() string {
	home, _ := os.UserHomeDir()
	return home
}

// darwinKernel is the major version of macOS's kernel.
func darwinKernel() int { return 0 }
