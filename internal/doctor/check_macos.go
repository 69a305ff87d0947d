// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/codesign"
	"github.com/socket-vmnet2/socket_vmnet2/internal/install/pathrules"
	"github.com/socket-vmnet2/socket_vmnet2/internal/shell"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// macMajor is the major version of macOS, 0 if it is not known.
func (f *facts) macMajor() int {
	major, _, _ := strings.Cut(f.macOS, ".")
	n, err := strconv.Atoi(major)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// guarded is where macOS 26 lets vmnet_start_interface fail, as apple/container's BUILDING.md tells of Documents and Desktop; Downloads is
// guarded in the same way.
var guarded = regexp.MustCompile(`^/Users/[^/]+/(Documents|Desktop|Downloads)/`)

// ours are the programs that are ours: this one and those that are installed.
func (x *exam) ours() (programs []string) {
	if !x.staged() && x.Program != "" {
		programs = append(programs, x.Program)
	}
	for _, in := range x.plan.Installs {
		if in.Ours && !in.Missing && !slices.Contains(programs, in.Program) {
			programs = append(programs, in.Program)
		}
	}
	return programs
}

// checkMacOS says what the version of macOS means.
func checkMacOS(x *exam) {
	major := x.macMajor()
	if major == 0 {
		x.skip(false, "the version of macOS is not known")
		return
	}
	data := map[string]any{"version": x.macOS}
	switch {
	case major >= 26:
		x.find(OK, fmt.Sprintf("macOS %s has vmnet's network objects: the daemon needs no root, and every client gets an interface on one network", x.macOS), data)
	case major >= 13:
		x.find(OK, fmt.Sprintf("macOS %s has vmnet's interfaces, not its network objects (macOS 26): the daemon must run as root", x.macOS), data)
	default:
		x.find(status.Warning, fmt.Sprintf("macOS %s is older than what socket_vmnet2 is made for", x.macOS), data, "update macOS to 13 or later")
	}
	for _, p := range x.ours() {
		if major >= 26 && guarded.MatchString(p) {
			x.find(status.Warning, fmt.Sprintf("%s: macOS %s lets no program start vmnet that is in a user's Documents, Desktop or Downloads", p, x.macOS),
				map[string]any{"program": p}, "move it, or install it:", command("sudo socket_vmnet2 install"))
		}
	}
	for _, p := range x.serving() {
		uid := -1
		switch {
		case p.Status != nil && p.Status.Network.Backend == "vmnet":
			uid = p.Status.Daemon.UID
		case p.Status == nil && p.Daemon != nil:
			uid = p.Daemon.UID
		}
		if major < 26 && uid > 0 {
			x.find(status.Error, fmt.Sprintf("the daemon at %s runs as user %d, but macOS %s lets only root start vmnet", p.Socket, uid, x.macOS), nil,
				"start it as root:", command("sudo socket_vmnet2 service install"))
		}
	}
}

// entitlement is what vmnet asks for from macOS 26 on where the daemon is not root.
const entitlement = "com.apple.security.virtualization"

// maxProgram is the largest program whose signature is looked at, in bytes.
const maxProgram = 64 << 20

// checkSignatures reads the signatures of the programs that are ours.
func checkSignatures(x *exam) {
	programs := x.ours()
	for _, p := range programs {
		x.signature(p)
	}
	if len(programs) == 0 {
		x.ok("no socket_vmnet2 is installed whose signature could be looked at")
	}
}

func (x *exam) signature(program string) {
	b, err := x.files().ReadFile(program, maxProgram)
	if err != nil {
		x.skip(os.IsPermission(err), "%s: %s", program, reason(err))
		return
	}
	data := map[string]any{"program": program}
	again := []string{
		"install it again as it was released: another tool signed or changed it",
		command("sudo socket_vmnet2 install"),
		"or sign it by hand, as a build does, with etc/entitlements.plist:",
		command("sudo codesign --force --sign - --entitlements etc/entitlements.plist " + shell.Quote(program)),
	}
	sig, err := codesign.Read(b)
	if err != nil {
		severity := status.Warning
		x.find(severity, fmt.Sprintf("%s has no signature that can be read: %v; Macs with Apple's processors run no program without one", program, err), data, again...)
		return
	}
	data["identifier"], data["adhoc"] = sig.Identifier, sig.AdHoc
	switch {
	case sig.Damaged != "":
		x.find(status.Error, fmt.Sprintf("%s was changed after it was signed (%s): macOS kills it at its start", program, sig.Damaged), data, again...)
	case !entitled(sig.Entitlements):
		severity, effect := status.Notice, "it needs that from macOS 26 on to run without root"
		if x.macMajor() >= 26 {
			severity, effect = status.Warning, "so it works as root only"
		}
		x.find(severity, fmt.Sprintf("%s is signed without the entitlement %s: %s", program, entitlement, effect), data, again...)
	default:
		x.find(OK, fmt.Sprintf("%s is signed as %s, with the entitlement %s", program, sig.Identifier, entitlement), data)
	}
}

// entitled tells whether a property list has our entitlement.
func entitled(list []byte) bool {
	all := map[string]any{}
	if err := decodePlist(list, &all); err != nil {
		return false
	}
	yes, _ := all[entitlement].(bool)
	return yes
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
	programs := x.qemus()
	if len(programs) == 0 {
		x.ok("there is no QEMU")
	}
	for _, p := range programs {
		// What others can change is not run as root.
		if x.User.UID == 0 || x.User.Behind {
			if err := pathrules.Check(p, pathrules.Options{Root: x.Root}); err != nil && !x.staged() {
				x.skip(false, "the version of %s: it is not run as root, since others could change it; run doctor without sudo", p)
				continue
			}
		}
		out, err := x.program(p, "--version")
		if err != nil {
			x.find(status.Warning, fmt.Sprintf("%s --version fails: %v", p, err), nil, "reinstall QEMU")
			continue
		}
		x.qemu(p, out)
	}
}

// qemus are programs to ask, those of the two usual processors first.
func (x *exam) qemus() (programs []string) {
	dirs := slices.Concat(filepath.SplitList(x.env("PATH")), qemuDirs)
	for _, name := range []string{"qemu-system-aarch64", "qemu-system-x86_64"} {
		for _, dir := range dirs {
			if !filepath.IsAbs(dir) || len(programs) >= maxQEMU {
				continue
			}
			at, err := x.files().Resolve(filepath.Join(dir, name))
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
	version := ""
	if _, rest, ok := strings.Cut(out, "version "); ok && strings.HasPrefix(out, "QEMU emulator") {
		version, _, _ = strings.Cut(strings.TrimSpace(rest), " ")
	}
	version, _, _ = strings.Cut(version, "\n")
	part := strings.SplitN(version, ".", 3)
	if len(part) < 2 {
		x.find(status.Notice, fmt.Sprintf("%s does not tell its version: %q", program, firstLine(out)), nil)
		return
	}
	major, err1 := strconv.Atoi(part[0])
	minor, err2 := strconv.Atoi(part[1][:len(part[1])-len(strings.TrimLeft(part[1], "0123456789"))]) // 11.0-rc1
	if err1 != nil || err2 != nil {
		x.find(status.Notice, fmt.Sprintf("%s does not tell its version: %q", program, firstLine(out)), nil)
		return
	}
	data := map[string]any{"program": program, "version": version}
	text := fmt.Sprintf("%s is QEMU %s", program, version)
	upgrade := "socket_vmnet2 upgrade replaces the daemon without a disconnect; restart machines behind any other restart, or update QEMU to 8.0 or later"
	switch n := major*100 + minor; {
	case n < 702:
		x.find(status.Notice, text+": it has no -netdev stream, so machines need socket_vmnet_client, and no reconnect", data, "update QEMU to 8.0 or later", upgrade)
	case n < 800:
		x.find(status.Notice, text+": it has -netdev stream without reconnect, so a machine loses its network when the daemon restarts", data, upgrade)
	case n < 902:
		x.find(OK, text+": machines reconnect with -netdev stream,...,reconnect=1", data)
	default:
		x.find(OK, text+": machines reconnect with -netdev stream,...,reconnect-ms=1000", data)
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line[:min(len(line), 200)]
}
