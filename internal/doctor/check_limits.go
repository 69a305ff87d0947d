// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// Files of Linux (proc(5)).
const (
	firstPort = "/proc/sys/net/ipv4/ip_unprivileged_port_start"
	dgramLen  = "/proc/sys/net/unix/max_dgram_qlen"
)

// goodDgramLen is what docs/protocol.md recommends, in frames.
const goodDgramLen = 512

// checkLimits looks at limits of Linux that a daemon meets.
func checkLimits(x *exam) {
	n := 0
	for _, p := range x.places {
		if p.Status == nil {
			continue
		}
		n++
		x.files4(p)
		x.ports(p)
		x.datagrams(p)
	}
	if n == 0 {
		x.ok("no daemon tells how many clients it takes")
	}
}

// number reads a file of one.
func (x *exam) number(path string) (int, bool) {
	b, err := x.readFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	return n, err == nil
}

// files4 compares how many files a daemon may open with its clients: each has a socket, and a port of vmnet or flows of the
// embedded network may have more.
func (x *exam) files4(p *place) {
	st := p.Status
	b, err := x.readFile(fmt.Sprintf("/proc/%d/limits", st.Daemon.PID))
	if err != nil {
		if errors.Is(err, errPermission) {
			x.skip(true, "the limits of process %d", st.Daemon.PID)
		}
		return
	}
	for line := range strings.Lines(string(b)) {
		words := strings.Fields(line) // Max open files  SOFT  HARD  files
		if len(words) < 5 || !strings.HasPrefix(line, "Max open files") {
			continue
		}
		soft, err := strconv.Atoi(words[3])
		need := 2*st.Daemon.MaxClients + 64
		data := map[string]any{"socket": p.Socket, "limit": words[3], "clients": st.Daemon.MaxClients}
		if err != nil || soft >= need { // "unlimited"
			x.find(OK, fmt.Sprintf("the daemon at %s may have %s files open, for %d clients", p.Socket, words[3], st.Daemon.MaxClients), data)
			return
		}
		x.find(status.Warning, fmt.Sprintf("the daemon at %s may have %d files open, which is little for %d clients", p.Socket, soft, st.Daemon.MaxClients), data,
			"give it more, in a unit of systemd by", command(fmt.Sprintf("LimitNOFILE=%d", max(4096, need))), "or fewer clients, by --max-clients")
		return
	}
}

// ports looks at forwards from ports that are root's.
func (x *exam) ports(p *place) {
	first, ok := x.number(firstPort)
	if !ok || p.Status.Network.Usernet == nil || p.Status.Daemon.UID == 0 {
		return
	}
	for _, f := range p.Status.Network.Usernet.Forwards {
		_, text, err := net.SplitHostPort(f.Host)
		port, perr := strconv.Atoi(text)
		if err == nil && perr == nil && port < first && f.Error != "" {
			x.find(status.Warning, fmt.Sprintf("the daemon at %s cannot open %s: ports below %d are root's", p.Socket, f.Host, first), map[string]any{"socket": p.Socket, "port": port},
				fmt.Sprintf("forward a port from %d on, or let everybody have lower ones:", first), command(fmt.Sprintf("sudo sysctl net.ipv4.ip_unprivileged_port_start=%d", port)))
		}
	}
}

// datagrams looks at how many frames the kernel takes ahead for datagram clients.
func (x *exam) datagrams(p *place) {
	n, ok := x.number(dgramLen)
	if !ok || n >= goodDgramLen {
		return
	}
	for _, c := range p.Status.Clients {
		if c.Transport == status.Unixgram {
			x.find(status.Notice, fmt.Sprintf("the kernel takes %d frames ahead for a datagram client of the daemon at %s (net.unix.max_dgram_qlen): more costs less processor time", n, p.Socket),
				map[string]any{"socket": p.Socket, "max_dgram_qlen": n}, "raise it before the daemon and the machines start:", command(fmt.Sprintf("sudo sysctl net.unix.max_dgram_qlen=%d", goodDgramLen)))
			return
		}
	}
}
