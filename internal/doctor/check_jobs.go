// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/migrate"
	"github.com/socket-vmnet2/socket_vmnet2/internal/shell"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// notLoaded is what migrate says of a job that is a file and nothing else.
const notLoaded = "not loaded"

// checkJobs looks at the jobs of launchd and the units of systemd.
func checkJobs(x *exam) {
	for _, j := range x.plan.Jobs {
		x.job(j)
	}
	for i, a := range x.plan.Jobs {
		for _, b := range x.plan.Jobs[i+1:] {
			if migrate.SamePath(a.Socket, b.Socket) && a.State != notLoaded && b.State != notLoaded {
				old := a
				if b.Owner != "socket_vmnet2" {
					old = b
				}
				x.find(status.Error, fmt.Sprintf("the jobs %s and %s both serve %s: only the first that starts gets it", a.Label, b.Label, a.Socket),
					map[string]any{"jobs": []string{a.Label, b.Label}}, append([]string{"keep one; to stop the other and keep it from starting again:"}, stopJob(old)...)...)
			}
		}
	}
	units := 0
	if x.GOOS == "linux" {
		units = x.units()
	}
	if len(x.plan.Jobs)+units == 0 {
		x.ok("no job starts a daemon: it is started by hand, or by Lima")
	}
}

// job tells of one job of launchd.
func (x *exam) job(j migrate.Job) {
	data := map[string]any{"job": j.Label, "file": j.Path, "state": j.State, "socket": j.Socket}
	text := fmt.Sprintf("the job %s (%s) runs %s for %s", j.Label, j.Path, j.Program, j.Socket)
	major := x.macMajor()
	switch {
	case j.User && major > 0 && major < 26:
		x.find(status.Error, fmt.Sprintf("%s as a user's job, but macOS %s lets only root start vmnet; Homebrew makes such a job where brew services is called without sudo", text, x.macOS),
			data, append([]string{"stop it and start it as root:"}, stopJob(j)...)...)
	case j.State == notLoaded:
		x.find(status.Notice, text+", but is not loaded, so nothing starts it", data, "load it, or remove its file if it is not wanted any more:",
			command("sudo launchctl bootstrap system "+shell.Quote(j.Path)), command("sudo rm "+shell.Quote(j.Path)))
	case j.State != "" && j.State != "running":
		x.find(status.Warning, fmt.Sprintf("%s, and its state is %q: see its log", text, j.State), data,
			"start it again; its log is where StandardErrorPath in the file says:", command("sudo launchctl kickstart -k "+shell.Quote("system/"+j.Label)))
	default:
		x.find(OK, text, data)
	}
}

// stopJob is how a job is stopped for good.
func stopJob(j migrate.Job) []string {
	switch {
	case j.Owner == "homebrew" && j.User:
		return []string{command("brew services stop socket_vmnet")}
	case j.Owner == "homebrew":
		return []string{command("sudo brew services stop socket_vmnet")}
	case j.Owner == "macports":
		return []string{command("sudo port unload socket_vmnet")}
	case j.User:
		return []string{command("launchctl bootout gui/$(id -u)/" + shell.Quote(j.Label)), command("rm " + shell.Quote(j.Path))}
	}
	return []string{command("sudo launchctl bootout " + shell.Quote("system/"+j.Label)), command("sudo rm " + shell.Quote(j.Path))}
}

// unitDirs are where units are, in systemd's order (systemd.unit(5)).
var unitDirs = []string{"/etc/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system"}

// units tells of systemd's units that are named like ours, and how many there are.
func (x *exam) units() int {
	var names []string
	for _, dir := range unitDirs {
		found, err := x.files().ReadDir(dir)
		if err != nil && !absent(err) {
			x.skip(true, "%s: %s", dir, reason(err))
		}
		for _, name := range found {
			if strings.HasPrefix(name, "socket_vmnet") && (strings.HasSuffix(name, ".service") || strings.HasSuffix(name, ".socket")) &&
				!strings.Contains(name, "@.") && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return 0
	}
	if _, err := x.lstat("/run/systemd/system"); err != nil || x.Run == nil { // sd_booted(3)
		x.find(status.Notice, fmt.Sprintf("systemd does not run here, so nothing starts %s", list(names)), map[string]any{"units": names})
		return len(names)
	}
	out, err := x.program("/usr/bin/systemctl", append([]string{"show", "--property=Id,ActiveState,SubState,UnitFileState,Result,NeedDaemonReload", "--"}, names...)...)
	if err != nil {
		x.skip(false, "systemctl show: %v", err)
		return len(names)
	}
	for block := range strings.SplitSeq(out, "\n\n") { // one for each unit (systemctl(1))
		if u := properties(block); u["Id"] != "" {
			x.unit(u)
		}
	}
	return len(names)
}

// properties reads lines of key=value.
func properties(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			all[k] = v
		}
	}
	return all
}

// unit tells of one unit.
func (x *exam) unit(u map[string]string) {
	name, quoted := u["Id"], shell.Quote(u["Id"])
	data := map[string]any{"unit": name, "active": u["ActiveState"], "enabled": u["UnitFileState"]}
	switch {
	case u["ActiveState"] == "failed":
		x.find(status.Error, fmt.Sprintf("the unit %s has failed (%s)", name, u["Result"]), data, "see why, and start it again:",
			command("journalctl -u "+quoted+" -n 50"), command("sudo systemctl restart "+quoted))
	case u["NeedDaemonReload"] == "yes":
		x.find(status.Warning, fmt.Sprintf("the file of the unit %s has changed since systemd read it", name), data,
			"have it read again:", command("sudo systemctl daemon-reload"), command("sudo systemctl restart "+quoted))
	case u["ActiveState"] == "active" && u["UnitFileState"] == "disabled":
		x.find(status.Notice, fmt.Sprintf("the unit %s runs, but will not be started at the next boot", name), data, "if that is wanted:", command("sudo systemctl enable "+quoted))
	case u["ActiveState"] == "inactive" && u["UnitFileState"] == "enabled":
		x.find(status.Notice, fmt.Sprintf("the unit %s is enabled, but does not run", name), data, "start it:", command("sudo systemctl start "+quoted))
	default:
		x.find(OK, fmt.Sprintf("the unit %s is %s and %s", name, u["ActiveState"], filepath.Base(u["UnitFileState"])), data)
	}
}
