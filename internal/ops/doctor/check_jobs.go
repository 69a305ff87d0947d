// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"path/filepath"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

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
		x.report(status.Error, []string{"see why, and start it again:", "    journalctl -u " + name + " -n 50", restart}, "the unit %s has failed (%s)", u.Name, u.Result)
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
