// SPDX-License-Identifier: Apache-2.0

package errtext

import "syscall"

// differs are the texts where today's glibc and Go's table are not the same.
var differs = map[syscall.Errno]string{
	syscall.Errno(133): "Memory page has hardware error", // EHWPOISON, not in package syscall
}
