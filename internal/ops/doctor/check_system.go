// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// guarded is where macOS 26 lets vmnet_start_interface fail, as apple/container's BUILDING.md tells of Documents and Desktop; Downloads is
// guarded in the same way.
var guarded = regexp.MustCompile(`^/Users/[^/]+/(Documents|Desktop|Downloads)/`)

// checkMacOS says what the version of macOS means, and where programs may not be.
func checkMacOS(x *exam) {
	for _, j := range x.Jobs {
		if guarded.MatchString(j.Program) {
			x.report(status.Warning, []string{"install it, and have the job name that; socket_vmnet2 migrate has the lines to type:", "    sudo socket_vmnet2 install"},
				"the job %s runs %s: launchd's jobs may not read a user's Documents, Desktop or Downloads, and fail with \"Operation not permitted\"", j.Label, j.Program)
		}
	}
	major := x.macMajor()
	switch {
	case major == 0:
		x.skip(false, "the version of macOS is not known")
		return
	case major >= 26:
		x.ok("macOS %s has vmnet's network objects: the daemon needs no root, and every client gets an interface on one network", x.macOS)
	case major >= 13:
		x.ok("macOS %s has vmnet's interfaces, not its network objects (macOS 26): the daemon must run as root", x.macOS)
	default:
		x.report(status.Warning, []string{"update macOS to 13 or later"}, "macOS %s is older than what socket_vmnet2 is made for", x.macOS)
	}
	for _, p := range x.ours() {
		if major >= 26 && guarded.MatchString(p) {
			x.report(status.Warning, []string{"move it, or install it:", "    sudo socket_vmnet2 install"},
				"%s: macOS %s lets no program start vmnet that is in a user's Documents, Desktop or Downloads", p, x.macOS)
		}
	}
	for _, k := range x.serving() {
		uid := -1
		switch {
		case k.Status == nil:
			uid = k.UID
		case k.Status.Network.Backend == "vmnet":
			uid = k.Status.Daemon.UID
		}
		if major < 26 && uid > 0 {
			x.report(status.Error, []string{"start it as root:", "    sudo socket_vmnet2 service install"},
				"the daemon at %s runs as user %d, but macOS %s lets only root start vmnet", k.Socket, uid, x.macOS)
		}
	}
}

// qemuDirs are where package managers have QEMU.
var qemuDirs = []string{"/opt/homebrew/bin", "/usr/local/bin", "/opt/local/bin", "/usr/bin"}

// maxQEMU bounds how many of QEMU's programs are asked: a package has thirty, all of one version.
const maxQEMU = 3

// checkQEMU asks QEMU for its version.
func checkQEMU(x *exam) {
	for _, p := range x.qemus() {
		// What others can change is not run as root.
		if (x.User.UID == 0 || x.User.Behind) && !x.Staged() && hostfs.Check(p, hostfs.Options{}) != nil {
			x.skip(false, "the version of %s: it is not run as root, since others could change it; run doctor without sudo", p)
			continue
		}
		if out, err := x.Output(x.ctx, p, "--version"); err != nil {
			x.report(status.Warning, []string{"reinstall QEMU"}, "%s --version fails: %v", p, err)
		} else {
			x.qemu(p, out)
		}
	}
}

// qemus are programs to ask, those of the two usual processors first.
func (x *exam) qemus() (programs []string) {
	dirs := slices.Concat(filepath.SplitList(x.Getenv("PATH")), qemuDirs)
	for _, name := range []string{"qemu-system-aarch64", "qemu-system-x86_64"} {
		for _, dir := range dirs {
			if !filepath.IsAbs(dir) || len(programs) >= maxQEMU {
				continue
			}
			at, err := x.Resolve(filepath.Join(dir, name))
			if err == nil && !slices.Contains(programs, at) {
				programs = append(programs, at)
			}
		}
	}
	return programs
}

// qemu reads what QEMU says of itself: "QEMU emulator version 7.2.22 (Debian ...)". Its versions, from its documentation of
// -netdev stream: the back end came with 7.2, reconnect=SECONDS with 8.0, reconnect-ms with 9.2.
func (x *exam) qemu(program, out string) {
	var version string
	var major, minor int
	if n, _ := fmt.Sscanf(out, "QEMU emulator version %s", &version); n == 1 {
		n, _ = fmt.Sscanf(version, "%d.%d", &major, &minor)
		if n != 2 {
			major = 0
		}
	}
	const upgrade = "socket_vmnet2 upgrade replaces the daemon without a disconnect; restart machines behind any other restart, or update QEMU to 8.0 or later"
	switch n := major*100 + min(minor, 99); {
	case major <= 0:
		x.report(status.Notice, nil, "%s does not tell its version: %q", program, find.FirstLine(out))
	case n < 702:
		x.report(status.Notice, []string{"update QEMU to 8.0 or later", upgrade},
			"%s is QEMU %s: it has no -netdev stream, so machines need socket_vmnet_client, and no reconnect", program, version)
	case n < 800:
		x.report(status.Notice, []string{upgrade}, "%s is QEMU %s: it has -netdev stream without reconnect, so a machine loses its network when the daemon restarts", program, version)
	case n < 902:
		x.ok("%s is QEMU %s: machines reconnect with -netdev stream,...,reconnect=1", program, version)
	default:
		x.ok("%s is QEMU %s: machines reconnect with -netdev stream,...,reconnect-ms=1000", program, version)
	}
}

// Files of Linux (proc(5)).
const (
	firstPort = "/proc/sys/net/ipv4/ip_unprivileged_port_start"
	dgramLen  = "/proc/sys/net/unix/max_dgram_qlen"
)

// goodDgramLen is what docs/protocol.md recommends, in frames.
const goodDgramLen = 512

// checkLimits looks at limits of Linux that a daemon meets.
func checkLimits(x *exam) {
	ahead, known := x.number(dgramLen) // frames that the kernel takes
	for _, k := range x.telling() {
		x.openFiles(k)
		x.ports(k)
		if known && ahead < goodDgramLen && slices.ContainsFunc(k.Status.Clients, func(c status.Client) bool { return c.Transport == status.Unixgram }) {
			x.report(status.Notice, []string{"raise it before the daemon and the machines start:", fmt.Sprintf("    sudo sysctl net.unix.max_dgram_qlen=%d", goodDgramLen)},
				"the kernel takes %d frames ahead for a datagram client of the daemon at %s (net.unix.max_dgram_qlen): more costs less processor time", ahead, k.Socket)
		}
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
			x.ok("the daemon at %s may have %s files open, for %d clients", k.Socket, words[0], d.MaxClients)
			return
		}
		x.report(status.Warning, []string{"give it more, in a unit of systemd by", fmt.Sprintf("    LimitNOFILE=%d", max(4096, need)), "or fewer clients, by --max-clients"},
			"the daemon at %s may have %d files open, which is little for %d clients", k.Socket, soft, d.MaxClients)
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
			}, "the daemon at %s cannot open %s: ports below %d are root's", k.Socket, f.Host, first)
		}
	}
}
