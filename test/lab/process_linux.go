// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// ownGroup keeps a Ctrl-C on the terminal away from the process, since Close ends it in good order, and has the kernel
// kill it should this program die without doing so.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func killGroup(p *os.Process) {
	_ = syscall.Kill(-p.Pid, syscall.SIGKILL) // fails when all have ended
}

// UseOf asks the system what process pid uses.
func UseOf(pid int) (Use, error) {
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return Use{}, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Use{}, err
	}
	u := Use{Files: len(fds)}
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(line, ":")
		n, _ := strconv.Atoi(strings.Fields(value + " 0")[0])
		switch key {
		case "Threads":
			u.Threads = n
		case "VmRSS":
			u.RSS = n
		case "RssAnon":
			u.Anon = n
		}
	}
	return u, nil
}
