// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// checkInstalls tells which programs there are, and which sockets are served by which.
func checkInstalls(x *exam) {
	var general []string
	for _, p := range x.Programs {
		fix := []string{
			"install it, or change what names it: socket_vmnet2 migrate tells",
			"    sudo socket_vmnet2 install --prefix=" + printable.Quote(p.Prefix),
		}
		if p.Missing != "" || p.Fault != "" {
			x.report(status.Error, fix, "%s", p)
			continue
		}
		if !p.Bundled() {
			general = append(general, p.Path)
		}
		if served := x.Served(p); len(served) > 0 {
			x.ok("%s and serves %s", p, printable.List(served))
		} else {
			x.ok("%s and serves no socket", p)
		}
	}
	if len(general) > 1 {
		x.report(status.Warning, []string{
			"keep the one that serves your sockets and remove the others; socket_vmnet2 migrate has the lines to type", "    socket_vmnet2 migrate",
		}, "there is more than one socket_vmnet: %s; updating one does not update the others", printable.List(general))
	}
	for _, p := range x.Problems {
		x.skip(p.Root, "%s: %s", p.Path, p.Error)
	}
}

// checkPaths holds Lima's rules against all that root runs or Lima names: every directory on the way counts.
func checkPaths(x *exam) {
	seen := map[string]bool{}
	check := func(path, why string, lima bool, o hostfs.Options) {
		if path == "" || seen[path] {
			return
		}
		seen[path] = true
		o.Root = x.Root
		if err := hostfs.Check(path, o); err != nil {
			x.badPath(path, why, lima, err)
			return
		}
		x.ok("%s, %s, can be changed by root only", path, why)
	}
	for _, n := range x.Networks {
		if n.Tool == "lima" {
			check(n.Program, "which "+n.Config+" names", true, hostfs.Options{Missing: true})
			check(filepath.Dir(n.Socket), "Lima's varRun", true, hostfs.Options{Missing: true, AllowDaemonGroup: true})
			check(n.Sudoers, "Lima's sudoers file", true, hostfs.Options{Missing: true})
		}
	}
	for _, j := range x.Jobs {
		if !j.User() {
			check(j.Program, "which the job "+j.Label+" runs as root", false, hostfs.Options{Missing: true, AllowSpace: true})
		}
	}
	for _, p := range x.Programs {
		// Homebrew's belong to the user that installed it, always; elsewhere one may be there to run as an ordinary user.
		if (p.Kind == find.KindUpstream || p.Kind == find.KindMacPorts || p.Kind == find.KindColima) && p.Missing == "" {
			check(p.Path, "an installed program", false, hostfs.Options{})
		}
	}
}

// badPath words what is wrong with a path.
func (x *exam) badPath(path, why string, lima bool, err error) {
	bad, ok := errors.AsType[*hostfs.Error](err)
	switch {
	case !ok:
		x.skip(false, "%s: %v", path, err)
		return
	case errors.Is(err, fs.ErrPermission):
		x.skip(true, "%s cannot be looked at", bad.Component)
		return
	}
	severity, effect := status.Warning, "other users than root could change what root runs"
	if lima {
		severity, effect = status.Error, "Lima refuses to use it"
	}
	var fix []string
	n, nerr := x.node(bad.Component)
	switch {
	case strings.HasPrefix(path, "/opt/homebrew/") || strings.HasPrefix(path, "/usr/local/"):
		fix = []string{
			"Homebrew's directories belong to the user that installed it: install a copy that only root can change, and name that",
			"    sudo socket_vmnet2 install --prefix=" + find.DefaultPrefix,
		}
	case nerr == nil && n.FileMode&fs.ModeSticky != 0: // all users', as /tmp is
		fix = []string{"that is a directory for all users: install to a path that only root can change", "    sudo socket_vmnet2 install"}
	case strings.HasPrefix(bad.Fix, "sudo "):
		fix = []string{"do this, or install to a path that only root can change:", status.CommandIndent + bad.Fix}
	case bad.Fix != "":
		fix = []string{bad.Fix}
	}
	x.report(severity, fix, "%s, %s, is not safe: %s %s; %s", path, why, bad.Component, bad.Problem, effect)
}

// checkSudoers compares Lima's sudoers file with what its networks.yaml asks for.
func checkSudoers(x *exam) {
	seen := map[string]bool{}
	for _, n := range x.Networks {
		if n.Tool != "lima" || n.Sudoers == "" || seen[n.Config] {
			continue
		}
		seen[n.Config] = true
		fix := []string{
			"have Lima write it again; limactl sudoers --check tells whether that was needed:",
			status.CommandIndent + find.LimaSudoers(n.Sudoers), "    limactl sudoers --check",
		}
		switch n.State {
		case find.SudoersInSync:
			x.ok("%s is what Lima makes of %s", n.Sudoers, n.Config)
		case find.SudoersOutOfSync:
			x.report(status.Error, fix, "%s is not what Lima makes of %s, as far as known here: Lima refuses to start these networks", n.Sudoers, n.Config)
		case find.SudoersMissing:
			x.report(status.Error, fix, "%s is missing: Lima cannot start its networks where sudo asks for a password", n.Sudoers)
		case find.SudoersUnreadable:
			x.skip(true, "%s cannot be read", n.Sudoers)
		}
	}
}

// codesign(1) is a part of macOS.
const codesign = "/usr/bin/codesign"

// entitled is in a list of entitlements, as XML, with what macOS 26 asks for where the user that starts vmnet is not root.
var entitled = regexp.MustCompile(`<key>com\.apple\.security\.virtualization</key>\s*<true\s*/>`)

// ours are the programs that are ours: this one and those that are installed.
func (x *exam) ours() (programs []string) {
	if !x.Staged() && x.Program != "" {
		programs = append(programs, x.Program)
	}
	for _, p := range x.Programs {
		if p.Ours && !find.SamePath(p.Path, x.Program) {
			programs = append(programs, p.Path)
		}
	}
	return programs
}

// checkSignatures asks codesign for the signatures of the programs that are ours.
func checkSignatures(x *exam) {
	for _, program := range x.ours() {
		x.signature(program)
	}
}

func (x *exam) signature(program string) {
	_, err := x.Output(x.ctx, codesign, "--verify", program)
	list, listErr := x.Output(x.ctx, codesign, "--display", "--entitlements", "-", "--xml", program)
	if err == nil {
		err = listErr
	}
	text := fmt.Sprint(err)
	fix := []string{
		"install it again as it was released: another tool signed or changed it",
		"    sudo socket_vmnet2 install",
		"or sign it by hand, as a build does, with etc/entitlements.plist:",
		"    sudo codesign --force --sign - --entitlements etc/entitlements.plist " + printable.Quote(program),
	}
	const without = "%s is signed without the entitlement com.apple.security.virtualization: "
	switch {
	case strings.Contains(text, "not signed"):
		x.report(status.Warning, fix, "%s is not signed; Macs with Apple's processors run no program without a signature", program)
	case strings.Contains(text, "modified"), strings.Contains(text, "invalid"), strings.Contains(text, "failed strict validation"):
		x.report(status.Error, fix, "%s was changed after it was signed (%s): macOS kills it at its start", program, text)
	case err != nil:
		x.skip(false, "the signature of %s: %v", program, err)
	case entitled.MatchString(list):
		x.ok("%s is signed, with the entitlement com.apple.security.virtualization", program)
	case x.macMajor() >= 26:
		x.report(status.Warning, fix, without+"so it works as root only", program)
	default:
		x.report(status.Notice, fix, without+"it needs that from macOS 26 on to run without root", program)
	}
}

// checkJobs looks at the jobs of launchd and the units of systemd.
func checkJobs(x *exam) {
	for i, a := range x.Jobs {
		x.job(a)
		for _, b := range x.Jobs[i+1:] {
			if !find.SamePath(a.Socket, b.Socket) || a.State == find.NotLoaded || b.State == find.NotLoaded {
				continue
			}
			old := a
			if b.Owner != "socket_vmnet2" {
				old = b
			}
			x.report(status.Error, append([]string{"keep one; to stop the other and keep it from starting again:"}, stopJob(old)...),
				"the jobs %s and %s both serve %s: only the first that starts gets it", a.Label, b.Label, a.Socket)
		}
	}
	for _, u := range x.Units {
		x.unit(u)
	}
}

// job tells of one job of launchd.
func (x *exam) job(j find.Job) {
	const text = "the job %s (%s) runs %s for %s"
	args := []any{j.Label, j.Path, j.Program, j.Socket}
	major := x.macMajor()
	switch {
	case j.User() && major > 0 && major < 26:
		x.report(status.Error, append([]string{"stop it and start it as root:"}, stopJob(j)...), text+" as a user's job, but macOS %s lets only root start vmnet; "+
			"Homebrew makes such a job where brew services is called without sudo", append(args, x.macOS)...)
	case j.State == find.NotLoaded:
		x.report(status.Notice, []string{
			"load it, or remove its file if it is not wanted any more:",
			"    sudo launchctl bootstrap system " + printable.Quote(j.Path), "    sudo rm " + printable.Quote(j.Path),
		}, text+", but is not loaded, so nothing starts it", args...)
	case j.State != "" && j.State != "running":
		x.report(status.Warning, []string{
			"start it again; its log is where StandardErrorPath in the file says:", "    sudo launchctl kickstart -k " + printable.Quote(j.Target()),
		}, text+", and its state is %q: see its log", append(args, j.State)...)
	default:
		x.ok(text, args...)
	}
}

// stopJob is how a job is stopped for good.
func stopJob(j find.Job) []string {
	line, managed := j.Stop()
	fix := []string{status.CommandIndent + line}
	if !managed {
		sudo, _, _ := strings.Cut(line, "launchctl")
		fix = append(fix, status.CommandIndent+sudo+printable.Command("rm", j.Path))
	}
	return fix
}

// unit tells of one unit of systemd.
func (x *exam) unit(u find.Unit) {
	name := printable.Quote(u.Name)
	restart := "    sudo systemctl restart " + name
	switch {
	case !x.Booted:
		x.report(status.Notice, nil, "systemd does not run here, so nothing starts %s", u.Name)
	case u.Active == "":
		x.skip(false, "the state of the unit %s is not known", u.Name)
	case u.Active == "failed":
		x.report(status.Error, []string{"see why, and start it again:", "    journalctl -u " + name + " -n 50", "    sudo systemctl reset-failed " + name + " && sudo systemctl start " + name}, "the unit %s has failed (%s)", u.Name, u.Result)
	case u.Stale:
		x.report(status.Warning, []string{"have it read again:", "    sudo systemctl daemon-reload", restart}, "the file of the unit %s has changed since systemd read it", u.Name)
	case u.Active == "active" && u.Enabled == "disabled":
		x.report(status.Notice, []string{"if that is wanted:", "    sudo systemctl enable " + name}, "the unit %s runs, but will not be started at the next boot", u.Name)
	case u.Active == "inactive" && u.Enabled == "enabled":
		x.report(status.Notice, []string{"start it:", "    sudo systemctl start " + name}, "the unit %s is enabled, but does not run", u.Name)
	default:
		x.ok("the unit %s is %s and %s", u.Name, u.Active, filepath.Base(u.Enabled))
	}
}
