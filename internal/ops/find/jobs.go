// SPDX-License-Identifier: Apache-2.0

package find

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"howett.net/plist"
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

// launchdJob is what matters here of a job's property list.
type launchdJob struct {
	Label, Program   string
	ProgramArguments []string
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
		raw, ok := decode[launchdJob](f, path, "property list", UnmarshalPlist)
		if !ok && !strings.Contains(name, "socket_vmnet") {
			f.Problems = f.Problems[:known] // of other programs
		}
		argv := raw.ProgramArguments
		if raw.Program != "" { // what launchd runs
			argv = append([]string{raw.Program}, argv[min(1, len(argv)):]...)
		}
		switch {
		case ok && isDaemon(argv):
			f.addJob(Job{Label: raw.Label, Path: Clean(path), Domain: domain, Args: cleanAll(argv)})
		case ok && strings.Contains(name, "socket_vmnet"):
			f.problem(path, fmt.Errorf("is a job named like socket_vmnet's that runs something else: %s", Clean(strings.Join(argv, " "))))
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

// addJob completes a job and adds it.
func (f *search) addJob(j Job) {
	if j.Label == "" {
		j.Label = strings.TrimSuffix(filepath.Base(j.Path), ".plist")
	}
	j.Label, j.Owner, j.setup = Clean(j.Label), ownerOf(j.Label), setupOf(j.Args)
	f.addNamed(j.Program, "the job "+j.Label+" ("+j.Path+")")
	j.State = f.jobState(j)
	f.Jobs = append(f.Jobs, j)
}

// jobState asks launchctl, where there is one.
func (f *search) jobState(j Job) string {
	if f.Run == nil || f.GOOS != "darwin" || strings.HasPrefix(j.Label, "-") {
		return ""
	}
	out, err := f.run("launchctl", "print", j.Target())
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return ""
	case err != nil:
		return NotLoaded
	}
	for line := range strings.Lines(string(out)) {
		if state, ok := strings.CutPrefix(strings.TrimSpace(line), "state = "); ok {
			return Clean(state)
		}
	}
	return "loaded"
}

// A Unit is one of systemd that is named like ours.
type Unit struct {
	Name    string `json:"name"`
	Active  string `json:"active,omitempty"` // empty: systemd was not asked
	Enabled string `json:"enabled,omitempty"`
	Result  string `json:"result,omitempty"`
	Stale   bool   `json:"stale"` // its file has changed since systemd read it
}

// unitDirs are where units are, in systemd's order (systemd.unit(5)).
var unitDirs = []string{"/etc/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system"}

// findUnits looks for units of systemd, and asks systemctl for their states where systemd runs.
func (f *search) findUnits() {
	if f.GOOS != "linux" {
		return
	}
	var names []string
	for _, dir := range unitDirs {
		for _, name := range f.list(dir) {
			ext := filepath.Ext(name)
			if strings.HasPrefix(name, "socket_vmnet") && (ext == ".service" || ext == ".socket") && !strings.Contains(name, "@.") && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	f.Booted = f.Run != nil && f.exists("/run/systemd/system") // sd_booted(3)
	if len(names) == 0 {
		return
	}
	known := map[string]map[string]string{}
	if f.Booted {
		out, err := f.run("/usr/bin/systemctl", append([]string{"show", "--property=Id,ActiveState,SubState,UnitFileState,Result,NeedDaemonReload", "--"}, names...)...)
		f.problem("systemctl show", err)
		for block := range strings.SplitSeq(string(out), "\n\n") { // one for each unit (systemctl(1))
			p := properties(block)
			known[p["Id"]] = p
		}
	}
	for _, name := range names {
		p := known[name]
		f.Units = append(f.Units, Unit{Clean(name), p["ActiveState"], p["UnitFileState"], p["Result"], p["NeedDaemonReload"] == "yes"})
	}
}

// properties reads lines of key=value.
func properties(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			all[k] = Clean(v)
		}
	}
	return all
}
