// SPDX-License-Identifier: Apache-2.0

package inherit

import (
	"fmt"
	"strconv"
	"strings"
)

// maxGiven is how many descriptors are looked at. There are five sockets; who gives more gives something else.
const maxGiven = 32

// fromSystemd reads LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES, as sd_listen_fds_with_names does, and removes them. Those that
// are for another process, which has passed them on, are no error.
func fromSystemd(o Options) ([]descriptor, error) {
	e := o.env
	pid, hasPID := e.take("LISTEN_PID")
	count, hasCount := e.take("LISTEN_FDS")
	nameList, hasNames := e.take("LISTEN_FDNAMES")
	e.take("LISTEN_PIDFDID")
	if !hasPID || !hasCount || pid != strconv.Itoa(e.pid) {
		return nil, nil
	}
	if !e.heeded() {
		o.Log.Warn("LISTEN_FDS is ignored: a daemon that runs as root heeds it only when process 1 has started it", "parent", e.ppid)
		return nil, nil
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || n > maxGiven {
		return nil, fmt.Errorf("LISTEN_FDS=%q: want a number up to %d", count, maxGiven)
	}
	list := make([]descriptor, n)
	for i := range list {
		fd := e.firstDescriptor + i
		e.closeOnExecution(fd) // whatever comes of it
		list[i] = descriptor{fd: fd, name: "unknown"}
	}
	if hasNames {
		names := strings.Split(nameList, ":")
		if n == 0 && nameList == "" {
			names = nil
		}
		if len(names) != n {
			return nil, fmt.Errorf("LISTEN_FDNAMES=%q has %d names, LISTEN_FDS is %d", nameList, len(names), n)
		}
		for i, name := range names {
			list[i].name = name
		}
	}
	for i, g := range list {
		list[i].from = fmt.Sprintf("descriptor %d of LISTEN_FDS, %q", g.fd, g.name)
	}
	return list, nil
}
