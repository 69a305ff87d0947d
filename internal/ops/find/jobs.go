// SPDX-License-Identifier: Apache-2.0

package find

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"howett.net/plist"

	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

// NotLoaded is the state of a job that is a file and nothing else.
const NotLoaded = "not loaded"

// A Job is one of launchd that runs a socket_vmnet.
type Job struct {
	Label  string   `json:"label"`
	Path   string   `json:"path"`
	Owner  string   `json:"owner"`           // upstream, homebrew, macports, socket_vmnet2 or other
	Domain string   `json:"domain"`          // system, or gui/UID of a user's job
	State  string   `json:"state,omitempty"` // what launchctl says: running, not running, not loaded; empty: not asked
	Args   []string `json:"arguments"`
	setup
}

// User tells whether it is a user's job.
func (j Job) User() bool { return j.Domain != "system" }

// Target is how launchctl names it.
func (j Job) Target() string { return j.Domain + "/" + j.Label }

// ownerOf tells by the begin of a label whose job it is.
func ownerOf(label string) string {
	for _, o := range [][2]string{
		{"io.github.lima-vm.socket_vmnet", "upstream"},
		{"io.github.socket-vmnet2.", "socket_vmnet2"},
		{"homebrew.mxcl.socket_vmnet2", "socket_vmnet2"},
		{"homebrew.mxcl.socket_vmnet", "homebrew"},
		{"org.macports.socket_vmnet", "macports"},
	} {
		if strings.HasPrefix(label, o[0]) {
			return o[1]
		}
	}
	return "other"
}

// Stop is the command that stops a job for good. managed: a package manager has made its file, and the command takes that away.
func (j Job) Stop() (line string, managed bool) {
	if name, ok := strings.CutPrefix(j.Label, "homebrew.mxcl."); ok {
		brew := "/opt/homebrew/bin/brew"
		if strings.HasPrefix(j.Program, "/usr/local/") {
			brew = "/usr/local/bin/brew"
		}
		return sudo(!j.User()) + printable.Command(brew, "services", "stop", name), true
	}
	if name, ok := strings.CutPrefix(j.Label, "org.macports."); ok {
		return "sudo " + printable.Command("/opt/local/bin/port", "unload", name), true
	}
	return sudo(!j.User()) + printable.Command("launchctl", "bootout", j.Target()), false
}

// launchdJob is what matters here of a job's property list.
type launchdJob struct {
	Label, Program   string
	ProgramArguments []string
}

// command is what launchd runs.
func (j launchdJob) command() []string {
	if j.Program == "" {
		return j.ProgramArguments
	}
	return append([]string{j.Program}, j.ProgramArguments[min(1, len(j.ProgramArguments)):]...)
}

// Command is the command line in a job's property list or unit, as this program writes them: words of units have no blanks. runtime is what
// %t stands for in a unit.
func Command(path, text, runtime string) (argv []string) {
	if filepath.Ext(path) == ".plist" {
		var j launchdJob
		_ = UnmarshalPlist([]byte(text), &j)
		return j.command()
	}
	_, line, _ := strings.Cut(text, "\nExecStart=")
	line, _, _ = strings.Cut(line, "\n")
	for word := range strings.FieldsSeq(line) {
		argv = append(argv, strings.Replace(strings.Trim(word, `"'`), "%t", runtime, 1))
	}
	return argv
}

// LookAtJobs is an inventory of nothing but jobs and units.
func LookAtJobs(ctx context.Context, s System) *Inventory {
	f := newSearch(ctx, s)
	f.findJobs()
	f.findUnits()
	return f.Inventory
}

// findJobs reads the property lists of launchd.
func (f *search) findJobs() {
	f.findJobsIn("/Library/LaunchDaemons", "system")
	f.findJobsIn("/Library/LaunchAgents", fmt.Sprintf("gui/%d", os.Getuid()))
	for _, home := range f.Homes {
		uid := os.Getuid()
		if fi, err := f.Stat(home); err == nil {
			uid, _ = Owner(fi)
		}
		f.findJobsIn(filepath.Join(home, "Library/LaunchAgents"), fmt.Sprintf("gui/%d", uid))
	}
}

func (f *search) findJobsIn(dir, domain string) {
	for _, name := range f.list(dir) {
		if filepath.Ext(name) != ".plist" {
			continue
		}
		path, known := filepath.Join(dir, name), len(f.Problems)
		raw, ok := decode[launchdJob](f, path, UnmarshalPlist)
		argv := cleanAll(raw.command())
		switch {
		case ok && isDaemon(Process{Args: argv}):
			j := Job{Label: Clean(cmp.Or(raw.Label, strings.TrimSuffix(name, ".plist"))), Path: Clean(path), Domain: domain, Args: argv, setup: setupOf(argv)}
			j.Owner, j.State, j.By = ownerOf(j.Label), f.jobState(j), "the job "+j.Label
			f.Jobs = append(f.Jobs, j)
		case !strings.Contains(name, "socket_vmnet"):
			f.Problems = f.Problems[:known] // of other programs
		case ok:
			f.problem(path, fmt.Errorf("is a job named like socket_vmnet's that runs something else: %s", strings.Join(argv, " ")))
		}
	}
}

// UnmarshalPlist reads a property list in any of its forms.
func UnmarshalPlist(b []byte, into any) error {
	return parse(func() error {
		_, err := plist.Unmarshal(b, into)
		return err
	})
}

// jobState asks launchctl, where there is one.
func (f *search) jobState(j Job) string {
	if f.Run == nil || f.GOOS != "darwin" || strings.HasPrefix(j.Label, "-") {
		return ""
	}
	out, err := f.Output(f.ctx, "launchctl", "print", j.Target())
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return ""
	case err != nil:
		return NotLoaded
	}
	for line := range strings.Lines(out) {
		if state, ok := strings.CutPrefix(strings.TrimSpace(line), "state = "); ok {
			return Clean(state)
		}
	}
	return "loaded"
}

// A Unit is one of systemd that runs a daemon, or is named like ours.
type Unit struct {
	Name    string `json:"name"`
	Path    string `json:"path"`
	Program string `json:"program,omitempty"` // of a service
	Active  string `json:"active,omitempty"`  // empty: systemd was not asked
	Enabled string `json:"enabled,omitempty"`
	Result  string `json:"result,omitempty"`
	Stale   bool   `json:"stale"` // its file has changed since systemd read it
}

// unitDirs are where units are, in systemd's order (systemd.unit(5)).
var unitDirs = []string{"/etc/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system"}

// findUnits looks for units of systemd, and asks systemctl for their states where systemd runs.
func (f *search) findUnits() {
	var names []string
	for _, dir := range unitDirs {
		for _, name := range f.list(dir) {
			ext := filepath.Ext(name)
			if ext != ".service" && ext != ".socket" || strings.Contains(name, "@.") || slices.Contains(names, name) {
				continue
			}
			u := Unit{Name: Clean(name), Path: Clean(filepath.Join(dir, name))}
			b, _ := f.ReadFile(filepath.Join(dir, name), maxFile)
			argv := Command(name, string(b), "")
			if isDaemon(Process{Args: argv}) {
				u.Program = Clean(argv[0])
			} else if !strings.HasPrefix(name, "socket_vmnet") {
				continue
			}
			f.Units, names = append(f.Units, u), append(names, name)
		}
	}
	f.Booted = f.GOOS == "linux" && f.Run != nil && f.exists("/run/systemd/system") // sd_booted(3)
	if len(names) == 0 || !f.Booted {
		return
	}
	out, err := f.Output(f.ctx, "/usr/bin/systemctl", append([]string{"show", "--property=Id,ActiveState,SubState,UnitFileState,Result,NeedDaemonReload", "--"}, names...)...)
	f.problem("systemctl show", err)
	for block := range strings.SplitSeq(out, "\n\n") { // one for each unit (systemctl(1))
		p := Properties(block)
		if i := slices.Index(names, p["Id"]); i >= 0 {
			u := &f.Units[i]
			u.Active, u.Enabled, u.Result, u.Stale = p["ActiveState"], p["UnitFileState"], p["Result"], p["NeedDaemonReload"] == "yes"
		}
	}
}

// Properties reads lines of key=value, as systemctl show prints them.
func Properties(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			all[k] = Clean(v)
		}
	}
	return all
}
