// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"howett.net/plist"

	"github.com/socket-vmnet2/socket_vmnet2/internal/find"
)

// notLoaded is the state of a job that is a file and nothing else.
const notLoaded = "not loaded"

// launchdJob is what matters here of a job's property list.
type launchdJob struct {
	Label            string
	Program          string
	ProgramArguments []string
}

// Owners of jobs, by the begin of their label.
var owners = []struct{ begin, owner string }{
	{"io.github.lima-vm.socket_vmnet", "upstream"},
	{"io.github.socket-vmnet2.", "socket_vmnet2"},
	{"homebrew.mxcl.socket_vmnet2", "socket_vmnet2"},
	{"homebrew.mxcl.socket_vmnet", "homebrew"},
	{"org.macports.socket_vmnet", "macports"},
}

func ownerOf(label string) string {
	for _, o := range owners {
		if strings.HasPrefix(label, o.begin) {
			return o.owner
		}
	}
	return "other"
}

// findJobs reads the property lists of launchd.
func (f *finder) findJobs() {
	for _, dir := range []string{"/Library/LaunchDaemons", "/Library/LaunchAgents"} {
		f.findJobsIn(dir, dir == "/Library/LaunchAgents", "")
	}
	for _, home := range f.Homes {
		f.findJobsIn(filepath.Join(home, "Library/LaunchAgents"), true, home)
	}
}

func (f *finder) findJobsIn(dir string, user bool, home string) {
	for _, name := range f.list(dir) {
		if filepath.Ext(name) != ".plist" {
			continue
		}
		path := filepath.Join(dir, name)
		// Other programs' lists are no business of ours, so they are no problem either.
		known := len(f.plan.Problems)
		raw, ok := decode[launchdJob](f, path, "property list", func(b []byte, out any) error {
			_, err := plist.Unmarshal(b, out)
			return err
		})
		if !ok && !strings.Contains(name, "socket_vmnet") {
			f.plan.Problems = f.plan.Problems[:known]
		}
		if ok {
			f.addJob(raw, path, user, home)
		}
	}
}

// addJob adds a job that runs a socket_vmnet.
func (f *finder) addJob(raw launchdJob, path string, user bool, home string) {
	argv := raw.ProgramArguments
	if len(argv) == 0 && raw.Program != "" {
		argv = []string{raw.Program}
	}
	if len(argv) > 0 && raw.Program != "" {
		argv = append([]string{raw.Program}, argv[1:]...) // what launchd runs
	}
	if !find.IsDaemon(argv) {
		if strings.Contains(filepath.Base(path), "socket_vmnet") {
			f.problem(path, fmt.Errorf("is a job named like socket_vmnet's that runs something else: %s", clean(strings.Join(argv, " "))))
		}
		return
	}
	j := Job{
		Label: clean(raw.Label), Path: clean(path), Owner: ownerOf(raw.Label), User: user,
		Arguments: cleanAll(argv), daemonArgs: parseArgs(argv),
	}
	if j.Label == "" {
		j.Label = clean(strings.TrimSuffix(filepath.Base(path), ".plist"))
	}
	f.addNamed(j.Program, "the job "+j.Label+" ("+j.Path+")")
	j.State = f.jobState(j, home)
	f.plan.Jobs = append(f.plan.Jobs, j)
}

// target is how launchctl names a job.
func (f *finder) target(j Job, home string) string {
	if !j.User {
		return "system/" + j.Label
	}
	uid := "$(id -u)"
	if at, err := f.resolve(home); err == nil && home != "" {
		var st syscall.Stat_t
		if syscall.Stat(filepath.Join(f.Root, at), &st) == nil && !f.staged() {
			uid = strconv.Itoa(int(st.Uid))
		}
	}
	return "gui/" + uid + "/" + j.Label
}

// jobState asks launchctl, where there is one.
func (f *finder) jobState(j Job, home string) string {
	if f.Run == nil || f.GOOS != "darwin" || strings.HasPrefix(j.Label, "-") {
		return ""
	}
	out, err := f.run(5*time.Second, "launchctl", "print", f.target(j, home))
	if notThere(err) {
		return ""
	}
	if err != nil {
		return notLoaded
	}
	for line := range strings.Lines(string(out)) {
		if state, ok := strings.CutPrefix(strings.TrimSpace(line), "state = "); ok {
			return clean(state)
		}
	}
	return "loaded"
}
