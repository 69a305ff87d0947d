// SPDX-License-Identifier: Apache-2.0

package inherit

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"syscall"
)

const (
	// firstDescriptor is where systemd's descriptors begin, SD_LISTEN_FDS_START.
	firstDescriptor = 3
	// maxGiven is how many descriptors are looked at. There are five sockets, and three descriptors of each client that is stored; a
	// manager that gives more gives something else.
	maxGiven = 32 + 3*4096
)

// A process is one that a service manager may have started.
type process struct {
	pid, ppid  int
	uid, euid  int
	gid, egid  int
	descriptor int // the first that is given
}

// this is the process. Tests have others, and cannot have that descriptor.
var this = process{os.Getpid(), os.Getppid(), os.Getuid(), os.Geteuid(), os.Getgid(), os.Getegid(), firstDescriptor}

// Getenv is os.Getenv for what is the user's to say: empty in a process that has more rights than the user who started it.
func Getenv(name string) string {
	if this.uid != this.euid || this.gid != this.egid {
		return ""
	}
	return os.Getenv(name)
}

// DropUnheeded removes from the environment what this process does not heed and an image after an upgrade could, once its parent
// has ended and process 1 is its parent.
func DropUnheeded() {
	if !this.heeds() {
		takeVariable("STATE_DIRECTORY")
	}
}

// heeds reports whether a process heeds what a service manager says in the environment: as root only as a child of process 1,
// and never with more rights than the account that started it, whose environment it is.
func (p process) heeds() bool {
	return p.uid == p.euid && p.gid == p.egid && (p.euid != 0 || p.ppid == 1)
}

// takeVariable returns a variable and removes it from the environment.
func takeVariable(name string) (string, bool) {
	v, ok := os.LookupEnv(name)
	_ = os.Unsetenv(name)
	return v, ok
}

// fromSystemd reads LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES, as sd_listen_fds_with_names does, and removes them. Those that are for
// another process, which has passed them on, are no error.
func fromSystemd(o Options) ([]descriptor, error) {
	pid, _ := takeVariable("LISTEN_PID")
	count, hasCount := takeVariable("LISTEN_FDS")
	named, _ := takeVariable("LISTEN_FDNAMES")
	takeVariable("LISTEN_PIDFDID")
	if !hasCount || pid != strconv.Itoa(this.pid) {
		return nil, nil
	}
	if !this.heeds() {
		o.Log.Warn("LISTEN_FDS is ignored: a daemon that runs as root heeds it only when process 1 has started it", "parent", this.ppid)
		return nil, nil
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || n > maxGiven {
		return nil, fmt.Errorf("LISTEN_FDS=%q: want a number up to %d", count, maxGiven)
	}
	list, names := make([]descriptor, n), strings.Split(named, ":")
	for i := range list {
		fd := this.descriptor + i
		syscall.CloseOnExec(fd) // whatever comes of it
		list[i] = descriptor{fd: fd, from: fmt.Sprintf("descriptor %d of LISTEN_FDS", fd)}
		if len(names) == n {
			list[i].name = names[i]
		}
	}
	return list, nil
}

// takeManager reads NOTIFY_SOCKET and removes it from the environment.
func takeManager(log *slog.Logger) string {
	addr, _ := takeVariable("NOTIFY_SOCKET")
	if addr != "" && !this.heeds() {
		log.Debug("NOTIFY_SOCKET is ignored: a daemon that runs as root heeds it only when process 1 has started it", "parent", this.ppid)
		return ""
	}
	return addr
}
