// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
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
	for _, k := range x.telling() {
		x.openFiles(k)
		x.ports(k)
		x.datagrams(k)
	}
}

// number reads a file of one.
func (x *exam) number(path string) (int, bool) {
	b, _ := x.readFile(path)
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	return n, err == nil
}

// openFiles compares how many files a daemon may open with its clients: each has a socket, and a port of vmnet or flows of the
// embedded network may have more.
func (x *exam) openFiles(k *socket) {
	d := k.Status.Daemon
	b, err := x.readFile(fmt.Sprintf("/proc/%d/limits", d.PID))
	if errors.Is(err, fs.ErrPermission) {
		x.skip(true, "the limits of process %d", d.PID)
	}
	_, line, found := strings.Cut(string(b), "Max open files") // SOFT  HARD  files
	if words := strings.Fields(line); found && len(words) > 1 {
		soft, err := strconv.Atoi(words[0])
		need := 2*d.MaxClients + 64
		if err != nil || soft >= need { // "unlimited"
			x.ok("the daemon at %s may have %s files open, for %d clients", k.Path, words[0], d.MaxClients)
			return
		}
		x.report(status.Warning, []string{"give it more, in a unit of systemd by", fmt.Sprintf("    LimitNOFILE=%d", max(4096, need)), "or fewer clients, by --max-clients"},
			"the daemon at %s may have %d files open, which is little for %d clients", k.Path, soft, d.MaxClients)
	}
}

// ports looks at forwards from ports that are root's.
func (x *exam) ports(k *socket) {
	first, ok := x.number(firstPort)
	if !ok || k.Status.Network.Usernet == nil || k.Status.Daemon.UID == 0 {
		return
	}
	for _, f := range k.Status.Network.Usernet.Forwards {
		_, text, _ := net.SplitHostPort(f.Host)
		if port, err := strconv.Atoi(text); err == nil && port < first && f.Error != "" {
			x.report(status.Warning, []string{
				fmt.Sprintf("forward a port from %d on, or let all users have lower ones:", first), fmt.Sprintf("    sudo sysctl net.ipv4.ip_unprivileged_port_start=%d", port),
			}, "the daemon at %s cannot open %s: ports below %d are root's", k.Path, f.Host, first)
		}
	}
}

// datagrams looks at how many frames the kernel takes ahead for datagram clients.
func (x *exam) datagrams(k *socket) {
	n, ok := x.number(dgramLen)
	if ok && n < goodDgramLen && slices.ContainsFunc(k.Status.Clients, func(c status.Client) bool { return c.Transport == status.Unixgram }) {
		x.report(status.Notice, []string{"raise it before the daemon and the machines start:", fmt.Sprintf("    sudo sysctl net.unix.max_dgram_qlen=%d", goodDgramLen)},
			"the kernel takes %d frames ahead for a datagram client of the daemon at %s (net.unix.max_dgram_qlen): more costs less processor time", n, k.Path)
	}
}
