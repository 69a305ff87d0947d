// SPDX-License-Identifier: Apache-2.0

//go:build !darwin

package hostfs

import (
	"fmt"
	"os"
	"strconv"
)

// FileOf names the file that fd is, for a sentence: on Linux by its path, or what else it is, such as "pipe:[7]".
func FileOf(fd int) string {
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return "a file"
	}
	return strconv.Quote(name)
}
