// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/install/pathrules"
	"github.com/socket-vmnet2/socket_vmnet2/internal/migrate"
	"github.com/socket-vmnet2/socket_vmnet2/internal/shell"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// ownTool tells whether an install belongs to a tool that takes no other.
func ownTool(in migrate.Install) bool {
	return in.Kind == migrate.KindColima || in.Kind == migrate.KindRancher || in.Kind == migrate.KindFinch
}

// checkInstalls tells which programs there are, and which sockets are served by which.
func checkInstalls(x *exam) {
	var general []string
	for _, in := range x.plan.Installs {
		switch served := x.servedBy(in); {
		case in.Missing:
			x.find(status.Error, fmt.Sprintf("%s is not there, but a job or a configuration names it", in.Program), nil,
				"install it, or change what names it: socket_vmnet2 migrate tells",
				command("sudo socket_vmnet2 install --prefix="+shell.Quote(in.Prefix)))
		default:
			if !ownTool(in) {
				general = append(general, in.Program)
			}
			data := map[string]any{"program": in.Program, "version": in.Version, "socket_vmnet2": in.Ours, "sockets": served}
			x.find(OK, describeInstall(in, served), data)
		}
	}
	if len(general) > 1 {
		x.find(status.Warning, fmt.Sprintf("there is more than one socket_vmnet: %s; an update of one does not reach what the others serve", list(general)),
			map[string]any{"programs": general},
			"keep the one that serves your sockets and remove the others; socket_vmnet2 migrate makes a plan",
			command("socket_vmnet2 migrate"))
	}
	if len(x.plan.Installs) == 0 {
		x.ok("this program, %s, is the only one that was found", x.Program)
	}
	for _, c := range x.plan.Conflicts {
		if c.Kind == "half-installed" {
			x.find(status.Error, c.Text, nil, c.Fix)
		}
	}
	x.unread()
}

// manyUnread is from how many paths on they are not told one by one: a user has many that others may not look at.
const manyUnread = 3

// unread tells what could not be looked at.
func (x *exam) unread() {
	var closed []string
	for _, p := range x.plan.Problems {
		if strings.Contains(p.Fix, "sudo") { // migrate's problems are texts
			closed = append(closed, p.Path)
			continue
		}
		x.skip(false, "%s: %s", p.Path, p.Error)
	}
	if more := len(closed) - manyUnread; more > 1 {
		closed = append(closed[:manyUnread], fmt.Sprintf("%d more", more))
	}
	if len(closed) > 0 {
		x.skip(true, "this user may not look at %s", list(closed))
	}
}

// describeInstall is a line about a program.
func describeInstall(in migrate.Install, served []string) string {
	text := in.Program
	if in.Links != "" {
		text += " (a link to " + in.Links + ")"
	}
	what := "socket_vmnet"
	if in.Ours {
		what = "socket_vmnet2"
	}
	text += " is " + what
	if in.Version != "" {
		text += " " + in.Version
	}
	if in.Kind != migrate.KindOther {
		text += " by " + in.Kind
	}
	if len(served) == 0 {
		return text + " and serves no socket"
	}
	return text + " and serves " + list(served)
}

// servedBy are the sockets of what runs, or would run, this program.
func (f *facts) servedBy(in migrate.Install) []string {
	sockets := []string{}
	add := func(program, socket string) {
		if socket != "" && (migrate.SamePath(program, in.Program) || migrate.SamePath(program, in.Links)) && !slices.Contains(sockets, socket) {
			sockets = append(sockets, socket)
		}
	}
	for _, d := range f.plan.Daemons {
		add(d.Program, d.Socket)
	}
	for _, j := range f.plan.Jobs {
		add(j.Program, j.Socket)
	}
	for _, n := range f.plan.Networks {
		add(n.Program, n.Socket)
	}
	return sockets
}

// checkPaths holds Lima's rules against all that root runs or Lima names: every directory on the way counts.
func checkPaths(x *exam) {
	seen := map[string]bool{}
	check := func(path, why string, o pathrules.Options) {
		if path == "" || seen[path] {
			return
		}
		seen[path] = true
		o.Root = x.Root
		err := pathrules.Check(path, o)
		if err == nil {
			x.ok("%s, %s, can be changed by root only", path, why)
			return
		}
		x.badPath(path, why, err)
	}
	for _, n := range x.plan.Networks {
		if n.Tool != "lima" {
			continue
		}
		check(n.Program, "which "+n.Config+" names", pathrules.Options{Missing: true})
		check(filepath.Dir(n.Socket), "Lima's varRun", pathrules.Options{Missing: true, AllowDaemonGroup: true})
		check(n.Sudoers, "Lima's sudoers file", pathrules.Options{Missing: true})
	}
	for _, j := range x.plan.Jobs {
		if !j.User {
			check(j.Program, "which the job "+j.Label+" runs as root", pathrules.Options{Missing: true, AllowSpace: true})
		}
	}
	for _, in := range x.plan.Installs {
		// Homebrew's belong to who installed it, always; elsewhere somebody may have put one to run as an ordinary user.
		if (in.Kind == migrate.KindUpstream || in.Kind == migrate.KindMacPorts) && !in.Missing {
			check(in.Program, "an installed program", pathrules.Options{})
		}
	}
	if len(seen) == 0 {
		x.ok("nothing was found that root runs")
	}
}

// badPath words what is wrong with a path.
func (x *exam) badPath(path, why string, err error) {
	bad, ok := errors.AsType[*pathrules.Error](err)
	if !ok {
		x.skip(false, "%s: %v", path, err)
		return
	}
	if errors.Is(err, errPermission) {
		x.skip(true, "%s cannot be looked at", bad.Component)
		return
	}
	severity, effect := status.Warning, "somebody else than root could change what root runs"
	if strings.Contains(why, "Lima") || strings.Contains(why, "names") {
		severity, effect = status.Error, "Lima refuses to use it"
	}
	fix := []string{}
	if bad.Fix != "" {
		if strings.HasPrefix(bad.Fix, "sudo ") {
			fix = append(fix, "do this, or install to a path that only root can change:", command(bad.Fix))
		} else {
			fix = append(fix, bad.Fix)
		}
	}
	if n, err := x.lstat(bad.Component); err == nil && n.FileMode&fs.ModeSticky != 0 { // everybody's, as /tmp is
		fix = []string{"that is a directory for everybody: install to a path that only root can change", command("sudo socket_vmnet2 install")}
	}
	if kind := "/opt/homebrew/"; strings.HasPrefix(path, kind) || strings.HasPrefix(path, "/usr/local/") {
		fix = []string{
			"Homebrew's directories belong to who installed it: install a copy that only root can change, and name that",
			command("sudo socket_vmnet2 install --prefix=" + migrate.DefaultPrefix),
		}
	}
	x.find(severity, fmt.Sprintf("%s, %s, is not safe: %s %s; %s", path, why, bad.Component, bad.Problem, effect),
		map[string]any{"path": path, "component": bad.Component}, fix...)
}

// checkSudoers compares Lima's sudoers file with what its networks.yaml asks for.
func checkSudoers(x *exam) {
	seen := map[string]bool{}
	for _, n := range x.plan.Networks {
		if n.Tool != "lima" || n.Sudoers == "" || seen[n.Config] {
			continue
		}
		seen[n.Config] = true
		data := map[string]any{"config": n.Config, "sudoers": n.Sudoers, "state": n.State}
		fix := []string{
			"have Lima write it again; limactl sudoers --check tells whether that was needed:",
			command("limactl sudoers >etc_sudoers.d_lima && sudo install -o root -m 0440 etc_sudoers.d_lima " + shell.Quote(n.Sudoers)),
			command("limactl sudoers --check"),
		}
		switch n.State {
		case migrate.SudoersInSync:
			x.find(OK, fmt.Sprintf("%s is what Lima makes of %s", n.Sudoers, n.Config), data)
		case migrate.SudoersOutOfSync:
			x.find(status.Error, fmt.Sprintf("%s is not what Lima makes of %s, as far as known here: Lima refuses to start these networks", n.Sudoers, n.Config), data, fix...)
		case migrate.SudoersMissing:
			x.find(status.Error, fmt.Sprintf("%s is missing: Lima cannot start its networks where sudo asks for a password", n.Sudoers), data, fix...)
		case migrate.SudoersUnreadable:
			x.skip(true, "%s cannot be read", n.Sudoers)
		}
	}
	if len(seen) == 0 {
		x.ok("Lima has no networks with a daemon")
	}
}
