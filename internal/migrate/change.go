// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// inPlace tells whether an install is moved by replacing its programs. What a package manager keeps is not, nor what it would
// put back, nor what others can change.
func (in Install) inPlace() bool {
	switch in.Kind {
	case KindUpstream, KindColima:
		return true
	case KindOther:
		return in.Unsafe == "" && !in.Missing
	}
	return false
}

// makeChanges makes the plan of what was found.
func (f *finder) makeChanges() {
	p := f.plan
	if slices.ContainsFunc(p.Daemons, func(d Daemon) bool { return d.Ours }) {
		p.Verdict = VerdictDone
	}
	for i := range p.Installs {
		in := &p.Installs[i]
		var c Change
		switch {
		case in.Kind == KindRancher, in.Kind == KindFinch:
			c = leftAlone(*in)
		case in.Ours:
			c = f.done(*in)
		case in.inPlace():
			c = f.replace(*in)
		default:
			c = f.replaceAside(*in)
		}
		p.Changes = append(p.Changes, c)
		if c.State == StateToDo {
			p.Verdict = VerdictMigrate
		} else if c.State == StateDone && p.Verdict == VerdictNothing {
			p.Verdict = VerdictDone
		}
	}
}

// newChange is a change with nothing in it.
func newChange(id, title, state, why string) Change {
	return Change{ID: id, Title: title, State: state, Why: why, Files: []string{}, Machines: []string{}, Steps: []Step{}, Check: []Step{}, Undo: []Step{}}
}

// leftAlone is for tools that compare their programs with what they were built with.
func leftAlone(in Install) Change {
	name := map[string]string{KindRancher: "Rancher Desktop", KindFinch: "Finch"}[in.Kind]
	return newChange(in.Kind, name+"'s own socket_vmnet at "+in.Prefix, StateAlone,
		name+" compares its program with the one that it was built with and puts that back; it moves over when it ships socket_vmnet2")
}

// done is for an install that is ours already.
func (f *finder) done(in Install) Change {
	c := newChange(idOf(in), "socket_vmnet2 at "+in.Prefix, StateDone,
		"From here on a newer version comes in with socket_vmnet2 upgrade SOCKET, which disconnects nobody.")
	for _, d := range f.plan.Daemons {
		if f.isOf(in, d.Program) && f.outdated(d) {
			note := fmt.Sprintf("process %d seems to be still the old program, since there is no %s.d", d.PID, d.Socket)
			c.Steps = append(c.Steps, Step{f.restartAny(d), note})
		}
	}
	if len(c.Steps) > 0 {
		c.State, c.Why = StateToDo, "The programs are in place; what runs is still the one from before."
		c.Machines = f.machinesOf(in)
		c.Steps = append(c.Steps, f.restartMachines(in)...)
	}
	if in.Backup {
		c.Undo = append(c.Undo, Step{f.rollback(in.Prefix), "puts back what was there before"})
		c.Undo = append(c.Undo, f.restarts(in, false)...)
	}
	return c
}

// outdated tells whether a daemon of an install that is ours was started before it was: the new one makes a directory beside
// its socket, where nobody but root can write.
func (f *finder) outdated(d Daemon) bool {
	dir := public(filepath.Dir(d.Socket))
	if d.Socket == "" || !slices.Contains([]string{"/var/run", "/var/run/lima"}, dir) {
		return false
	}
	return f.stat(d.Socket) != nil && f.stat(d.Socket+".d") == nil
}

// replace puts our programs where the old ones are.
func (f *finder) replace(in Install) Change {
	title := "socket_vmnet at "
	if in.Kind == KindColima {
		title = "Colima's socket_vmnet at "
	}
	c := newChange(idOf(in), title+in.Prefix, StateToDo,
		"The programs are replaced at the same paths, after a backup. What runs now goes on as it is until it is restarted.")
	if in.Missing {
		c.Why = "The programs have gone. They are put back to the same paths, as socket_vmnet2."
	}
	if len(f.networksOf(in)) > 0 {
		c.Why += " Lima's networks.yaml and sudoers file stay as they are, since the path in them does."
	}
	c.Files = f.installedFiles(in.Prefix)
	c.Machines = f.machinesOf(in)
	c.Steps = append([]Step{{f.install(in.Prefix), "copies files; no machine notices"}}, f.restarts(in, true)...)
	c.Check = f.checks(in)
	c.Undo = append([]Step{{f.rollback(in.Prefix), "restores each file, its owner and its times"}}, f.restarts(in, false)...)
	return c
}

// idOf names a change.
func idOf(in Install) string {
	if in.Kind == KindUpstream {
		return "upstream"
	}
	if in.Kind == KindOther {
		return "other:" + in.Prefix
	}
	return in.Kind
}

// installedFiles are what install writes.
func (f *finder) installedFiles(prefix string) []string {
	var files []string
	for _, name := range []string{"bin/socket_vmnet", "bin/socket_vmnet2", "bin/socket_vmnet_client", "libexec/vmnet-helper", backupDir} {
		files = append(files, filepath.Join(prefix, name))
	}
	return files
}

// install is the command that installs to a prefix.
func (f *finder) install(prefix string) string {
	return "sudo " + command(append([]string{f.Program, "install"}, f.where(prefix)...)...)
}

// rollback is the command that undoes it. It is that of the installed program: the one that installed may be gone by then.
func (f *finder) rollback(prefix string) string {
	return "sudo " + command(append([]string{f.installed(prefix), "rollback"}, f.where(prefix)...)...)
}

// installed is our program in a prefix.
func (f *finder) installed(prefix string) string {
	return f.local(filepath.Join(prefix, "bin/socket_vmnet2"))
}

// local is where a path is for the commands of the plan.
func (f *finder) local(path string) string {
	if f.staged() {
		return filepath.Join(f.Root, path)
	}
	return path
}

// where are the options that name a prefix.
func (f *finder) where(prefix string) []string {
	var args []string
	if prefix != DefaultPrefix {
		args = append(args, "--prefix="+prefix)
	}
	if f.staged() {
		args = append(args, "--root="+f.Root)
	}
	return args
}

// isOf tells whether program belongs to an install.
func (f *finder) isOf(in Install, program string) bool {
	known := f.installOf(program)
	return known != nil && known.Program == in.Program
}

// socketsOf are the sockets that an install serves.
func (f *finder) socketsOf(in Install) []string {
	var all []string
	for _, j := range f.plan.Jobs {
		if f.isOf(in, j.Program) {
			all = append(all, public(j.Socket))
		}
	}
	for _, n := range f.plan.Networks {
		if f.isOf(in, n.Program) {
			all = append(all, public(n.Socket))
		}
	}
	for _, d := range f.plan.Daemons {
		if f.isOf(in, d.Program) {
			all = append(all, public(d.Socket))
		}
	}
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

// uses tells whether a machine depends on an install.
func (f *finder) uses(m Machine, in Install) bool {
	if m.Tool == "colima" && in.Kind == KindColima {
		return true
	}
	return slices.Contains(f.socketsOf(in), public(m.Socket))
}

// machinesOf are the names of the machines that depend on an install.
func (f *finder) machinesOf(in Install) []string {
	names := []string{}
	for _, m := range f.plan.Machines {
		if f.uses(m, in) {
			names = append(names, m.Tool+" "+m.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// checks are how to see that it worked.
func (f *finder) checks(in Install) []Step {
	all := []Step{{command(f.installed(in.Prefix), "--version"), "prints " + f.Version}}
	for _, j := range f.plan.Jobs {
		if f.isOf(in, j.Program) {
			all = append(all, Step{"sudo " + command("launchctl", "print", f.jobTarget(j)) + " | grep 'state ='", "says running"})
		}
	}
	if slices.ContainsFunc(f.networksOf(in), func(n Network) bool { return n.Tool == "lima" }) {
		all = append(all, Step{"limactl sudoers --check", "says that the sudoers file is up to date"})
	}
	if len(f.machinesOf(in)) > 0 {
		all = append(all, Step{"", "in a machine: its address is the one that it had, and it reaches its gateway"})
	}
	again := []string{f.Program, "migrate"}
	if f.staged() {
		again = append(again, "--root="+f.Root)
	}
	return append(all, Step{command(again...), "shows " + in.Prefix + " as socket_vmnet2"})
}

// jobTarget is how launchctl names a job in a command for its owner.
func (f *finder) jobTarget(j Job) string {
	if j.User {
		return f.target(j, homeOf(j.Path))
	}
	return "system/" + j.Label
}

// homeOf is the home directory that a property list is below.
func homeOf(path string) string {
	home, _, _ := strings.Cut(path, "/Library/LaunchAgents/")
	return home
}
