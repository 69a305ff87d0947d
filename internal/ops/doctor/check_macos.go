// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// guarded is where macOS 26 lets vmnet_start_interface fail, as apple/container's BUILDING.md tells of Documents and Desktop; Downloads is
// guarded in the same way.
var guarded = regexp.MustCompile(`^/Users/[^/]+/(Documents|Desktop|Downloads)/`)

// checkMacOS says what the version of macOS means.
func checkMacOS(x *exam) {
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
			uid = k.Server.UID
		case k.Status.Network.Backend == "vmnet":
			uid = k.Status.Daemon.UID
		}
		if major < 26 && uid > 0 {
			x.report(status.Error, []string{"start it as root:", "    sudo socket_vmnet2 service install"},
				"the daemon at %s runs as user %d, but macOS %s lets only root start vmnet", k.Path, uid, x.macOS)
		}
	}
}

// qemuDirs are where package managers have QEMU.
var qemuDirs = []string{"/opt/homebrew/bin", "/usr/local/bin", "/opt/local/bin", "/usr/bin"}

// maxQEMU bounds how many of QEMU's programs are asked: a package has thirty, all of one version.
const maxQEMU = 3

// checkQEMU asks QEMU for its version.
func checkQEMU(x *exam) {
	if x.Run == nil {
		x.skip(false, "the version of QEMU: programs are not run on a staged system")
		return
	}
	for _, p := range x.qemus() {
		// What others can change is not run as root.
		if (x.User.UID == 0 || x.User.Behind) && !x.Staged() && hostfs.Check(p, hostfs.Options{}) != nil {
			x.skip(false, "the version of %s: it is not run as root, since others could change it; run doctor without sudo", p)
			continue
		}
		if out, err := x.program(p, "--version"); err != nil {
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
		x.report(status.Notice, nil, "%s does not tell its version: %q", program, firstLine(out))
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
