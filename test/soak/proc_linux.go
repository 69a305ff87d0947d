// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	askUnread = unix.SIOCINQ
	askUnsent = unix.SIOCOUTQ
)

// queued asks how many bytes wait in a socket.
func queued(fd int, request uint) (int, error) { return unix.IoctlGetInt(fd, request) }

// use asks the system what process pid uses.
func use(pid int) (usage, error) {
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return usage{}, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return usage{}, err
	}
	u := usage{Files: len(fds)}
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(line, ":")
		n, _ := strconv.Atoi(strings.Fields(value + " 0")[0])
		switch key {
		case "Threads":
			u.Threads = n
		case "VmRSS":
			u.RSS = n
		}
	}
	return u, nil
}
